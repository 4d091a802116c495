"""A small server of ``/v1/completions`` with our own sampler behind it: token ids in, ids and log-probabilities out."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import transformers

from agentenvs.train.engine.shared import SharedSampler
from agentenvs.train.interfaces import Draw, Sampling

Change = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass
class Served:
    """What a server does, and what it was asked."""

    model: Any
    slots: int = 8
    fail: int = 0
    """So many requests fail first."""
    delay: float = 0.0
    stale: bool = False
    """Whether new weights are taken with a nod, and not used."""
    change: Change = dict
    """What is done to an answer."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._sampler: SharedSampler | None = None

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        time.sleep(self.delay)
        with self._lock:
            if self.fail:
                self.fail -= 1
                return 503, {"error": "busy"}
        if path == "/update_weights_from_disk":
            return 200, self.update(body["model_path"])
        if path == "/collective_rpc":
            return 200, self.update(body["kwargs"]["weights_path"])
        if path.startswith(("/pause", "/resume")):
            self.updates.append(path)
            return 200, {}
        self.asked.append(body)
        return 200, self.change(self.complete(body))

    def update(self, folder: str) -> dict[str, Any]:
        self.updates.append(folder)
        if not self.stale:
            self.model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
            self._sampler = None
        return {"success": True, "message": ""}

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        sampling = Sampling(body["temperature"], body["top_p"], body["min_p"], body["max_tokens"])
        sampling = Sampling(
            stop=tuple(body["stop_token_ids"]),
            **{name: getattr(sampling, name) for name in ("temperature", "top_p", "min_p", "max_tokens")},
        )
        with self._lock:  # one at a time: whoever asks may ask for other lengths
            sampler = SharedSampler(self.model, 1, 4096, sampling)
            found = sampler.sample(Draw(body["prompt"], 0, body["seed"]))
        choice = {"token_ids": found.ids, "logprobs": {"token_logprobs": found.logps}, "finish_reason": "stop"}
        return {"choices": [choice], "usage": {"prompt_tokens": len(body["prompt"])}}


@contextmanager
def serve(served: Served) -> Iterator[Served]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
            status, form = served.answer(self.path, body)
            data = json.dumps(form).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                pass  # it was not waited for

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
