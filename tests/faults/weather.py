"""What is done to servers while clients play on them."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agentenvs.core.streams import Stream
from tests.faults.players import Book
from tests.faults.processes import Server
from tests.faults.storm import Weather
from tests.postgres import Cluster

MOST_TURNS_BETWEEN = 120


def calm(turns: int) -> Weather:
    """Return the weather in which nothing happens for some turns."""

    async def weather(_: Stream, book: Book) -> None:
        await some_turns(book, turns)

    return weather


def kills(servers: Sequence[Server], times: int) -> Weather:
    """Return the weather in which one of the servers is killed at random points, sometimes before it is up again."""

    async def weather(stream: Stream, book: Book) -> None:
        for _ in range(times):
            server = stream.choice(servers)
            if stream.chance(1, 6):
                await asyncio.sleep(0.4 * stream.uniform())
            else:
                await asyncio.to_thread(server.wait)
                await some_turns(book, stream.between(1, MOST_TURNS_BETWEEN))
            server.kill()
            server.start(wait=False)
            if book.faults:
                return
        for server in servers:
            await asyncio.to_thread(server.wait)
        await some_turns(book, MOST_TURNS_BETWEEN)

    return weather


def worker_kills(server: Server, times: int) -> Weather:
    """Return the weather in which the oldest worker of a server is killed again and again."""

    async def weather(stream: Stream, book: Book) -> None:
        for _ in range(times):
            await some_turns(book, stream.between(1, MOST_TURNS_BETWEEN))
            # A server whose workers die young gives up, which is right, and not asked here.
            await asyncio.sleep(2 + stream.uniform())
            os.kill(server.workers()[0], signal.SIGKILL)
            server.kills += 1
            if book.faults:
                return
        await some_turns(book, MOST_TURNS_BETWEEN)

    return weather


def outage(begin: Callable[[], None], end: Callable[[], None], seconds: float) -> Weather:
    """Return the weather in which something is taken away for a while."""

    async def weather(_: Stream, book: Book) -> None:
        await some_turns(book, MOST_TURNS_BETWEEN)
        await asyncio.to_thread(begin)
        try:
            await asyncio.sleep(min(seconds, 1.0))
            played = book.turns
            await asyncio.sleep(seconds)
            if book.turns > played:
                book.faults.append(("doubled", f"{book.turns - played} turns were played without a journal"))
        finally:
            await asyncio.to_thread(end)
        await some_turns(book, MOST_TURNS_BETWEEN)

    return weather


def away(cluster: Cluster, seconds: float, mode: str = "fast") -> Weather:
    """Return the weather in which PostgreSQL is stopped for a while."""
    return outage(lambda: cluster.stop(mode), cluster.start, seconds)


def starved(server: Server, seconds: float) -> Weather:
    """Return the weather in which no file of a server may grow for a while."""

    def limit(size: int) -> None:
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, hard))

    return outage(lambda: limit(4096), lambda: limit(resource.RLIM_INFINITY), seconds)


def full(folder: Path, seconds: float) -> Weather:
    """Return the weather in which a file system of its own is full for a while."""
    filler = folder / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 4096)
            except OSError:
                return

    return outage(fill, filler.unlink, seconds)


def frozen(files: Sequence[Path], seconds: float) -> Weather:
    """Return the weather in which files cannot be written by anybody for a while."""
    return outage(lambda: freeze(files), lambda: freeze(files, "-i"), seconds)


def freeze(files: Sequence[Path], how: str = "+i") -> None:
    """Let nobody, root not either, write files; or let them again.

    Raises:
        OSError: That cannot be done here.
    """
    done = subprocess.run(["chattr", how, *map(str, files)], capture_output=True, check=False)
    if done.returncode:
        raise OSError(done.stderr.decode())


async def some_turns(book: Book, count: int) -> None:
    """Wait until so many more turns are played, but not for ever."""
    end, enough = time.monotonic() + 20, book.turns + count
    while book.turns < enough and time.monotonic() < end and not book.faults:
        await asyncio.sleep(0.002)
