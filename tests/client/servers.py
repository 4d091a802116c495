"""A real server on this machine, and a bad line in front of it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings

Fault = Callable[[int, str, str], Any]
"""From number, method and path of a request to what goes wrong with it, or None."""


@contextmanager
def serving(*envs: str, settings: Settings | None = None) -> Iterator[str]:
    """Run a server and hand out its URL."""
    with background(envs, settings) as url:
        yield url


_MADE = {"busy": (503, {"Retry-After": "0"}, b"{}"), "gateway": (502, {}, b"<html>")}


class Relay:
    """What a bad line was asked, and what it does wrong.

    ``lost``: the server does what it is asked, and its reply is lost. ``cut``: the reply breaks off. ``deaf``: the
    request never arrives. ``busy``: 503 with Retry-After. ``gateway``: 502. ``slow``: the reply comes too late.
    ``(status, headers, bytes)`` is a reply of the line's own. It takes no sockets.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream.removeprefix("http://")
        self.url = ""
        self.fault: Fault = lambda number, method, path: None
        self.requests: list[tuple[str, str]] = []
        self.lock = threading.Lock()
        self.slow = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    relay: Relay
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Upgrade"):
            self._send(426, {}, b"")
            return
        with self.relay.lock:
            self.relay.requests.append((self.command, self.path))
            fault = self.relay.fault(len(self.relay.requests), self.command, self.path)
        self.close_connection = fault in ("deaf", "lost", "cut")
        if fault != "deaf":
            made = _MADE.get(fault, fault) if isinstance(fault, str) else fault
            self._send(*made) if isinstance(made, tuple) else self._relay(body, fault)

    def _relay(self, body: bytes, fault: str | None) -> None:
        status, headers, data = self._forward(body)
        if fault == "slow":
            self.relay.slow.wait(10)
        if fault != "lost":
            self._send(status, headers, data[: len(data) // 2] if fault == "cut" else data, len(data))

    do_GET = do_POST = do_DELETE = _any

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        line = http.client.HTTPConnection(self.relay.upstream, timeout=30)
        try:
            line.request(self.command, self.path, body=body or None, headers=dict(self.headers.items()))
            reply = line.getresponse()
            return reply.status, {k: v for k, v in reply.getheaders() if k != "transfer-encoding"}, reply.read()
        finally:
            line.close()

    def _send(self, status: int, headers: dict[str, str], data: bytes, size: int | None = None) -> None:
        try:
            self.send_response(status)
            for name, value in {**headers, "content-length": str(size or len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def relaying(upstream: str, fault: Fault | None = None) -> Iterator[Relay]:
    """Put a bad line in front of a server."""
    relay = Relay(upstream)
    if fault is not None:
        relay.fault = fault

    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"relay": relay}))
    server.daemon_threads = True
    relay.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield relay
    finally:
        relay.slow.set()
        server.shutdown()
        server.server_close()
        thread.join()
