"""A real HTTP server on this machine that answers chat requests as a test tells it to, well or badly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Answer = Any
"""A dict or list is a JSON body; bytes are a body; an int is a status; ``(status, headers, body)``; a callable gets the
handler and writes by itself."""


@dataclass
class Endpoint:
    """What the server was told, and what it was asked."""

    url: str
    answers: list[Answer] = field(default_factory=list)
    default: Answer = 500
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def next(self, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        self.requests.append(body)
        self.headers.append(headers)
        answer = self.answers.pop(0) if self.answers else self.default
        return answer(body) if getattr(answer, "of_body", False) else answer


def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing that is set in the shell send these requests elsewhere."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def words(text: str | None, *, usage: tuple[int, int] | None = (10, 5), finish: str = "stop") -> dict[str, Any]:
    """Return the body of a reply in words."""
    return _body({"role": "assistant", "content": text}, usage, finish)


def calls(*made: tuple[str, Any], text: str | None = None, usage: tuple[int, int] | None = (10, 5)) -> dict[str, Any]:
    """Return the body of a reply with tool calls; arguments that are no string become JSON."""
    forms = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for number, (name, given) in enumerate(made)
    ]
    return _body({"role": "assistant", "content": text, "tool_calls": forms}, usage, "tool_calls")


def of_body(function: Callable[[dict[str, Any]], Answer]) -> Callable[[dict[str, Any]], Answer]:
    """Mark a function that makes the answer from the request's body."""
    function.of_body = True  # type: ignore[attr-defined]
    return function


@contextmanager
def serve(*answers: Answer, default: Answer = 500) -> Iterator[Endpoint]:
    """Run an endpoint that gives the answers in turn, then the default for ever."""
    told: Endpoint

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = told.next(json.loads(data), {name.lower(): value for name, value in self.headers.items()})
            try:
                if callable(answer):
                    answer(self)
                else:
                    self._send(*answer) if isinstance(answer, tuple) else self._send(*_plain(answer))
            except OSError:
                self.close_connection = True

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    told = Endpoint(f"http://127.0.0.1:{server.server_address[1]}/v1", list(answers), default)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _body(message: dict[str, Any], usage: tuple[int, int] | None, finish: str) -> dict[str, Any]:
    form: dict[str, Any] = {"object": "chat.completion", "choices": [{"message": message, "finish_reason": finish}]}
    if usage is not None:
        form["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return form


def _plain(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    if isinstance(answer, int):
        return answer, {}, b'{"error": {"message": "told so"}}'
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return 200, {"Content-Type": "application/json"}, body
