"""Pythons of trainers, a model that says what a script holds, and servers of the suite."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings
from tests.adapters.plugs.scripts import spoken
from tests.docs.blocks import blocks
from tests.envs.fixtures import register_fixtures

ROOT = Path(__file__).parents[3]
ROOMS = os.pathsep.join(str(ROOT / room) for room in (".", "servers", "scenarios", "scoring"))
PAGES = ROOT / "docs" / "plugs"
PEERS = ROOT / "tests" / "adapters" / "plugs" / "peers"
SECONDS = 850
"""How long a program of a trainer's may take: on a busy machine importing torch alone takes a minute."""
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "WANDB_MODE": "disabled",
    "NO_COLOR": "1",
    "OMP_NUM_THREADS": "1",  # on a busy machine torch's threads wait for each other ten times longer than they work
}
"""What a trainer is told, so that it downloads nothing, calls nobody, and is done in time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let what plays with a trainer take as long as :data:`SECONDS` says."""
    for item in items:
        if (
            Path(__file__).parent in item.path.parents
            and item.get_closest_marker("peer")
            and not item.get_closest_marker("timeout")
        ):
            item.add_marker(pytest.mark.timeout(SECONDS + 50))


@pytest.fixture(scope="session", autouse=True)
def _worlds() -> None:
    register_fixtures()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a server with household and two of the fixtures."""
    with background(["household", "clerk", "ledger"], Settings()) as url:
        yield url


class _Chat(BaseHTTPRequestHandler):
    lines: list[str]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        said = self.lines[min(turn, len(self.lines) - 1)]
        about = {"id": "chat-1", "created": 1, "model": body["model"]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        message = {"role": "assistant", "content": said}
        if body.get("stream"):
            pieces = [{"delta": message, "finish_reason": None}, {"delta": {}, "finish_reason": "stop"}]
            chunks = [{**about, "object": "chat.completion.chunk", "choices": [{"index": 0, **p}]} for p in pieces]
            chunks.append({**about, "object": "chat.completion.chunk", "choices": [], "usage": usage})
            text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
            return self.answer("text/event-stream", text)
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return self.answer(
            "application/json", json.dumps({**about, "object": "chat.completion", "choices": [choice], "usage": usage})
        )

    def answer(self, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None: ...


class _Responses(_Chat):
    scripts: Mapping[str, list[dict[str, Any]]]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        about = json.dumps(asked["input"][0])
        calls = next(calls for name, calls in self.scripts.items() if name in about)
        turn = sum(part.get("type") == "function_call" for part in asked["input"])
        said: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
        said["content"] = [{"type": "output_text", "text": "Done.", "annotations": []}]
        if turn < len(calls):
            words = {"name": calls[turn]["name"], "arguments": json.dumps(calls[turn]["arguments"])}
            said = {"type": "function_call", "id": f"f{turn}", "call_id": f"c{turn}", "status": "completed", **words}
        about = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
        more = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "output": [said]}
        self.answer("application/json", json.dumps({**about, **more}))


@pytest.fixture
def model() -> Iterator[Callable[[list[str]], str]]:
    """Return a function that starts an OpenAI-compatible server which says the lines of a script, and its base URL."""
    with ExitStack() as stack:
        yield lambda lines: stack.enter_context(_serving(type("Chat", (_Chat,), {"lines": lines})))


@pytest.fixture
def responses() -> Iterator[Callable[[Mapping[str, list[dict[str, Any]]]], str]]:
    """The same with OpenAI's Responses, and calls; which script is played, the first words of the prompt say."""
    with ExitStack() as stack:
        yield lambda scripts: stack.enter_context(_serving(type("Answers", (_Responses,), {"scripts": scripts})))


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}/v1"
        served.shutdown()


@pytest.fixture(scope="session")
def lines() -> list[str]:
    """What wins the first episode of household's split ``dev``, as a model says it."""
    return spoken("household", "dev", 0)


@pytest.fixture(scope="session")
def talk() -> list[str]:
    """What wins the first episode of clerk's split ``train``, a dialogue, as a model says it."""
    return spoken("clerk", "train", 0)


def printed(page: str, language: str = "python", place: int = 0) -> str:
    """Return a block of a page of docs/plugs."""
    return [block.text for block in blocks(PAGES / f"{page}.md") if block.language == language][place]


def peer(variable: str, needs: str) -> Path:
    """Return the Python that a variable names, or skip the test."""
    found = os.environ.get(variable)
    if not found:
        pytest.skip(f"{variable} names no Python with {needs} in it (scripts/peers.sh makes one)")
    return Path(found)


def run(*command: Any, cwd: Path, **more: str) -> str:
    """Run a program of a trainer's with this checkout on its path, and return what it prints."""
    path = os.pathsep.join([str(cwd), ROOMS])
    environ = {**os.environ, **QUIET, "PYTHONPATH": path, **more}
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-6000:]
    return done.stdout
