"""A server as a process of its own that can be killed, and starts again at the same address."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVS = ("household", "ledger", "clerk")
START_SECONDS = 60.0


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class Server:
    """A server on one port and journal.

    Args:
        journal: File or URL; ``none`` for none.
        log: Takes what the server says.
        envs: What it hosts.
        more: Further arguments of ``agentenvs serve``.
        before: Words of a command that the server is run by.
    """

    def __init__(
        self,
        journal: str,
        log: Path,
        envs: Sequence[str] = ENVS,
        more: Sequence[str] = (),
        before: Sequence[str] = (),
    ) -> None:
        self.journal = journal
        self.port = free_port()
        self.log = log
        self.kills = 0
        self._envs = envs
        self._more = more
        self._before = before
        self._next: subprocess.Popen[bytes] | None = None
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process that runs."""
        if self.process is None:
            raise RuntimeError("the server does not run")
        return self.process.pid

    def start(self, *, wait: bool = True) -> None:
        """Start, and have the next one ready to follow."""
        self.process = self._next or self._spawn()
        if self.process.stdin is not None:
            self.process.stdin.write(b"\n")
            self.process.stdin.close()
        self._next = self._spawn()
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until it answers."""
        end = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=5):
                return
            if time.monotonic() > end or self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"the server did not come up:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill it, as ``kill -9`` does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.kills += 1

    def terminate(self) -> int:
        """Ask it to stop, and return its exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def workers(self) -> list[int]:
        """Return the processes that it started."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        found = [(int(child), Path(f"/proc/{child}/cmdline").read_bytes()) for child in children]
        return [child for child, line in found if b"spawn_main" in line]

    def close(self) -> None:
        """Kill whatever is left."""
        for process in (self.process, self._next):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
            if process is not None and process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
        self.process = self._next = None

    def _spawn(self) -> subprocess.Popen[bytes]:
        rooms = [str(ROOT / room) for room in ("", "servers", "scenarios", "scoring")]
        surroundings = {name: value for name, value in os.environ.items() if not name.startswith("AGENTENVS_")}
        command = [
            *self._before,
            sys.executable,
            "-m",
            "tests.faults.serve",
            "serve",
            *self._envs,
            *("--journal", self.journal, "--port", str(self.port), "--retention", "7200", *self._more),
        ]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=ROOT,
                env={**surroundings, "PYTHONPATH": os.pathsep.join(rooms)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
