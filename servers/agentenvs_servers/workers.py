"""Several processes of one server: started, watched, replaced when they die, and stopped together.

Each worker listens on the same port with a socket of its own where the system shares connections out between them
(``SO_REUSEPORT``), else on the one socket. They share nothing but the journal. A worker whose supervisor is gone stops.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from agentenvs.core.errors import ServiceError

WATCH_SECONDS = 0.5

START_SECONDS = 60.0
"""How long the workers may take to come up."""

STOP_SECONDS = 20.0
"""How long workers are given to stop before they are killed."""

SHORT_LIFE_SECONDS = 5.0
MOST_SHORT_LIVES = 5
"""Deaths of young workers in a row after which the server gives up."""

log = logging.getLogger("agentenvs.server")

Work = Callable[..., None]
"""What a worker does: takes its socket and a function that says that it is up, a plan, and its number."""


class Crew:
    """The workers of a server.

    Args:
        count: How many.
        work: A function of a module; called in each as ``work(socket, up, plan, number)``.
        plan: Goes to another process.
        sock: The socket of the supervisor, bound.
    """

    def __init__(self, count: int, work: Work, plan: Any, sock: socket.socket) -> None:
        self._count = count
        self._work = work
        self._plan = plan
        self._sock = sock
        self._spawning = multiprocessing.get_context("spawn")
        self._workers: list[tuple[SpawnProcess, Connection, float]] = []
        self._short_lives = 0
        self._stop = threading.Event()
        self._signals = 0
        self.patience = STOP_SECONDS
        """Seconds that workers have to stop in."""
        self.hears_hangups = False
        """Whether SIGHUP is handed on to the workers, instead of ending the server."""

    def run(self, up: Callable[[], None]) -> None:
        """Keep the workers going until SIGINT or SIGTERM.

        Args:
            up: Called once all of them answer.

        Raises:
            ServiceError: They do not come up, or die again and again.
        """
        with self._hearing():
            try:
                self._workers = [self._start(number) for number in range(self._count)]
                self._wait_until_up()
                if not self._stop.is_set():
                    up()
                while not self._stop.is_set():
                    self._replace_the_dead()
            finally:
                self._end()

    def _start(self, number: int) -> tuple[SpawnProcess, Connection, float]:
        ours, theirs = self._spawning.Pipe()
        process = self._spawning.Process(
            target=_worker, args=(self._work, self._sock, theirs, self._plan, number), name="agentenvs-worker"
        )
        process.start()
        theirs.close()
        return process, ours, time.monotonic()

    def _wait_until_up(self) -> None:
        end = time.monotonic() + START_SECONDS
        for process, pipe, _ in self._workers:
            while not pipe.poll(0.1):
                if self._stop.is_set():
                    return
                if process.exitcode is not None or time.monotonic() > end:
                    raise ServiceError(
                        "a worker did not come up", why=f"exit code {process.exitcode}", fix="see what it said above"
                    )

    def _replace_the_dead(self) -> None:
        wait([process.sentinel for process, _, _ in self._workers], WATCH_SECONDS)
        for place, (process, pipe, since) in enumerate(self._workers):
            if process.exitcode is None or self._stop.is_set():
                continue
            log.error("worker %s ended with %s; another takes its place", process.pid, process.exitcode)
            pipe.close()
            self._short_lives = self._short_lives + 1 if time.monotonic() - since < SHORT_LIFE_SECONDS else 0
            if self._short_lives >= MOST_SHORT_LIVES:
                raise ServiceError("the workers die as soon as they are there", fix="see what they said above")
            self._workers[place] = self._start(place)

    def _signal(self, number: int) -> None:
        for process, _, _ in self._workers:
            if process.pid is not None and process.exitcode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)

    @contextmanager
    def _hearing(self) -> Iterator[None]:
        """Hear signals to stop, and hand on those to look at files again."""

        def stop(*_: object) -> None:
            self._signals += 1
            self._stop.set()

        heard: dict[int, Callable[..., None]] = {signal.SIGINT: stop, signal.SIGTERM: stop}
        if self.hears_hangups and hasattr(signal, "SIGHUP"):
            heard[signal.SIGHUP] = lambda *_: self._signal(signal.SIGHUP)
        before = {number: signal.signal(number, handler) for number, handler in heard.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self) -> None:
        self._signal(signal.SIGTERM)
        end, told = time.monotonic() + self.patience, self._signals
        while time.monotonic() < end and any(process.exitcode is None for process, _, _ in self._workers):
            wait([process.sentinel for process, _, _ in self._workers if process.exitcode is None], WATCH_SECONDS)
            if self._signals > max(told, 1):  # somebody cannot wait
                told = self._signals
                self._signal(signal.SIGTERM)
        for process, pipe, _ in self._workers:
            process.join(0.0)
            if process.exitcode is None:
                log.error("worker %s did not stop in time and is killed", process.pid)
                process.kill()
                process.join()
            pipe.close()


def shares_ports() -> bool:
    """Return whether several sockets may listen on one port, with connections shared out between them."""
    return hasattr(socket, "SO_REUSEPORT") and os.uname().sysname == "Linux"


def _worker(work: Work, sock: socket.socket, pipe: Connection, plan: Any, number: int) -> None:
    """Work in a process of its own."""
    # Ctrl-C reaches the whole group of a terminal; the supervisor decides what comes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, args=(pipe,), name="agentenvs-supervisor", daemon=True).start()
    own = sock
    if shares_ports():
        own = socket.socket(sock.family, socket.SOCK_STREAM)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        own.bind(sock.getsockname())
        sock.close()
    work(own, lambda: pipe.send(b"up"), plan, number)


def _follow(pipe: Connection) -> None:
    """Stop when the supervisor is gone."""
    with contextlib.suppress(EOFError, OSError):
        pipe.recv()
    os.kill(os.getpid(), signal.SIGTERM)
