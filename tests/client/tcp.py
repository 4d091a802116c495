"""A line of bytes between a client and a server that can be cut, silenced and refused at any moment."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Tcp:
    """What the line does, and has seen."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream.removeprefix("http://")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.opened = 0
        """Connections so far."""
        self.heads: list[bytes] = []
        """First line of each."""
        self.refusing = False
        """Hang up on whoever calls."""
        self.silent = False
        """Swallow everything, both ways, without a word."""
        self.deaf = False
        """Swallow what the server says."""
        self.lock = threading.Lock()
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection, with what is under way on it."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for side in pair:
                with contextlib.suppress(OSError):
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    side.shutdown(socket.SHUT_RDWR)
                side.close()

    def close(self) -> None:
        self.listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.opened += 1
            if self.refusing:
                near.close()
                continue
            try:
                host, port = self.upstream.split(":")
                far = socket.create_connection((host, int(port)))
            except OSError:
                near.close()
                continue
            for side in (near, far):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.pairs.append((near, far))
            threading.Thread(target=self._pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, outward: bool) -> None:
        first = outward
        try:
            while data := source.recv(65_536):
                if first:
                    self.heads.append(data.split(b"\r\n", 1)[0])
                    first = False
                if not (self.silent or (self.deaf and not outward)):
                    sink.sendall(data)
        except OSError:
            pass
        finally:
            for side in (source, sink):
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)


@contextmanager
def tcp(upstream: str) -> Iterator[Tcp]:
    """Put a line in front of a server."""
    line = Tcp(upstream)
    try:
        yield line
    finally:
        line.close()
