"""Servers of other makers for tests: small ones that speak as they do, and the real ones where they are installed.

``AGENTENVS_PEER_PYTHON`` names a Python in which ``openenv`` is installed (it brings ``mcp``, version 1), and
``AGENTENVS_PEER_MCP`` one with version 2 of ``mcp``; neither may be this one, whose packages they would move.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.http11 import Response
from websockets.sync.server import Server, serve

ACTION = {"type": "object", "properties": {"message": {"type": "string"}, "metadata": {}}, "required": ["message"]}


def _document(value: Any) -> Response:
    from websockets.datastructures import Headers

    body = json.dumps(value).encode()
    return Response(200, "OK", Headers({"Content-Type": "application/json", "Content-Length": str(len(body))}), body)


def _frames(connection: Any) -> None:
    """Echo as OpenEnv's echo server does; ``crash`` breaks off, ``nonsense`` answers none of the frames."""
    for text in connection:
        frame = json.loads(text)
        said = (frame.get("data") or {}).get("message", "ready")
        if frame["type"] == "close" or said == "crash":
            return
        if frame["type"] == "step" and set(frame["data"]) != {"message"}:
            answer: Any = {"type": "error", "data": {"code": "VALIDATION_ERROR", "message": "no such field"}}
        elif said == "fail":
            answer = {"type": "error", "data": {"code": "EXECUTION_ERROR", "message": "boom"}}
        elif said == "nonsense":
            answer = {"type": "observation", "data": {}}
        else:
            shown = {"echoed_message": said, "metadata": {}}
            done = said == "bye"
            answer = {"type": "observation", "data": {"observation": shown, "reward": 0.5 * done, "done": done}}
        connection.send(json.dumps(answer))


@contextlib.contextmanager
def openenv_like(action: Any = ACTION) -> Iterator[str]:
    """Serve the frames of OpenEnv, with a schema of its actions; yields the address."""

    def pages(connection: Any, request: Any) -> Response | None:
        if request.path == "/schema":
            return _document({"action": action})
        return _document({"name": "echo env"}) if request.path == "/metadata" else None

    server: Server
    with serve(_frames, "127.0.0.1", 0, process_request=pages) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()


TOOLS = [
    {
        "name": "add",
        "description": "Add.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
    {"name": "note", "inputSchema": {"type": "object", "properties": {}}},
]


class _Tools(BaseHTTPRequestHandler):
    """Answers as an MCP server does, by events."""

    protocol_version = "HTTP/1.1"
    sessions: set[str] = set()  # noqa: RUF012 - one a test process

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = asked["method"]
        if method == "initialize":
            session = f"s{len(self.sessions)}"
            self.sessions.add(session)
            told = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "calc"}, "instructions": "Add numbers."}
            self._answer(asked, told, {"Mcp-Session-Id": session})
        elif self.headers.get("Mcp-Session-Id") not in self.sessions:
            self.send_error(404)
        elif method == "tools/list":
            page = (asked["params"] or {}).get("cursor")
            self._answer(asked, {"tools": TOOLS[1:]} if page else {"tools": TOOLS[:1], "nextCursor": "2"})
        elif method == "tools/call":
            self._call(asked)
        else:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def do_DELETE(self) -> None:
        self.sessions.discard(self.headers.get("Mcp-Session-Id", ""))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _call(self, asked: dict[str, Any]) -> None:
        numbers = asked["params"]["arguments"]
        if asked["params"]["name"] == "note":
            self._answer(asked, {"content": [{"type": "image", "data": ""}]})
        elif all(type(numbers.get(name)) is int for name in ("a", "b")):
            self._answer(asked, {"content": [{"type": "text", "text": str(numbers["a"] + numbers["b"])}]})
        else:
            self._answer(asked, {"content": [{"type": "text", "text": "two numbers"}], "isError": True})

    def _answer(self, asked: dict[str, Any], result: Any, headers: dict[str, str] | None = None) -> None:
        body = (
            f"event: message\ndata: {json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': result})}\n\n".encode()
        )
        self.send_response(200)
        for name, value in {"Content-Type": "text/event-stream", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@contextlib.contextmanager
def mcp_like() -> Iterator[str]:
    """Serve two tools; yields the endpoint."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Tools) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()
        thread.join()


def peer_python(variable: str = "AGENTENVS_PEER_PYTHON", package: str = "openenv") -> str:
    """Return a Python with the peers' packages; skip the test where none is named."""
    found = os.environ.get(variable)
    if not found or Path(found) == Path(sys.executable):
        pytest.skip(f"{variable} names no Python with {package} in it")
    return found


@contextlib.contextmanager
def process(command: list[str], cwd: Path, port: int) -> Iterator[None]:
    """Run a server for as long as a test needs it."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    server = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean)
    try:
        until = time.monotonic() + 90
        while time.monotonic() < until and server.poll() is None:
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"http://127.0.0.1:{port}/health")
                break
            time.sleep(0.2)
        yield
    finally:
        server.kill()
        server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


MCP_SERVER = '''
import sys
try:  # version 1 of the package
    from mcp.server.fastmcp import FastMCP
    where, app = {}, FastMCP("stock", host="127.0.0.1", port=int(sys.argv[1]))
except ImportError:  # version 2
    from mcp.server.mcpserver import MCPServer
    where, app = {"host": "127.0.0.1", "port": int(sys.argv[1])}, MCPServer("stock")

@app.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

app.run(transport="streamable-http", **where)
'''

TOOL_SERVER = '''
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Observation, State

class Echo(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        server = FastMCP("echo")

        @server.tool
        def echo_message(message: str) -> str:
            """Say it back."""
            return message

        super().__init__(server)
        self._state = State(episode_id="1", step_count=0)

    def reset(self, seed=None, episode_id=None, **more):
        return Observation(done=False, reward=0.0)

    def _step_impl(self, action, timeout_s=None, **more):
        return Observation(done=False, reward=0.0, metadata={"error": "no such action"})

    @property
    def state(self):
        return self._state

app = create_app(Echo, CallToolAction, CallToolObservation, env_name="echo", max_concurrent_envs=8)
'''
"""An environment of OpenEnv whose actions are calls of its tools, as those of its echo environment are."""
