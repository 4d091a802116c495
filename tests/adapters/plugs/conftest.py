"""Pythons of trainers, a model that says what a script holds, and servers of the suite."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings
from tests.adapters.plugs.scripts import script
from tests.envs.fixtures import register_fixtures

ROOT = Path(__file__).parents[3]
ROOMS = os.pathsep.join(str(ROOT / room) for room in (".", "servers", "scenarios", "scoring"))
SECONDS = 280


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


@pytest.fixture
def model() -> Iterator[Callable[[list[str]], str]]:
    """Return a function that starts an OpenAI-compatible server which says the lines of a script, and its base URL."""
    with ExitStack() as stack:

        def start(lines: list[str]) -> str:
            served = ThreadingHTTPServer(("127.0.0.1", 0), type("Chat", (_Chat,), {"lines": lines}))
            threading.Thread(target=served.serve_forever, daemon=True).start()
            stack.callback(served.server_close)
            stack.callback(served.shutdown)
            return f"http://127.0.0.1:{served.server_port}/v1"

        yield start


@pytest.fixture(scope="session")
def lines() -> list[str]:
    """What wins the first episode of household's split ``dev``, as a model says it."""
    return [f"I think first.\nAction: {action}" for action in script("household", "dev", 0)]


def peer(variable: str, needs: str) -> Path:
    """Return the Python that a variable names, or skip the test."""
    found = os.environ.get(variable)
    if not found:
        pytest.skip(f"{variable} names no Python with {needs} in it (scripts/peers.sh makes one)")
    return Path(found)


def run(*command: Any, cwd: Path, **more: str) -> str:
    """Run a program of a trainer's with this checkout on its path, and return what it prints."""
    path = os.pathsep.join([str(cwd), ROOMS])
    quiet = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "WANDB_MODE": "disabled", "NO_COLOR": "1"}
    environ = {**os.environ, **quiet, "PYTHONPATH": path, **more}
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-6000:]
    return done.stdout
