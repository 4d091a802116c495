"""Two thousand sessions that step once a second, as models that think do: how late are the answers, and is any wrong?

    python benchmarks/load.py
    python benchmarks/load.py --sessions 1000 --seconds 60 --door socket

Each session has a time of its own within the second at which it steps, so that the load is even; an answer is late from
that time on, whether or not the client itself was late in asking. Over HTTP each session has a connection of its own.
Clients and server share the machine. Exit code 1 where the slowest hundredth took more than a quarter of a second, or
anything but a played turn was answered.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from serving import Server, _ask, _frame, _post, cpu_of, serving

MOST_P99 = 0.25
GROUP = 250

Step = Callable[[dict[str, str], int, str], Awaitable[int]]


class Line(asyncio.Protocol):
    """A connection with one request on it at a time; returns the status of its answer."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._status: asyncio.Future[int] | None = None
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._data += data
        head = self._data.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self._data.find(b"content-length: ", 0, head)
        size = int(self._data[at + 16 : self._data.index(b"\r\n", at)])
        if len(self._data) >= head + 4 + size:
            status = int(self._data[9:12])
            del self._data[: head + 4 + size]
            self._answer(status)

    def connection_lost(self, error: Exception | None) -> None:
        self._answer(0)

    def _answer(self, status: int) -> None:
        if self._status is not None and not self._status.done():
            self._status.set_result(status)

    async def ask(self, request: bytes) -> int:
        self._status = asyncio.get_running_loop().create_future()
        if self._transport is not None:
            self._transport.write(request)
        return await self._status


async def http_line(server: Server, session: dict[str, str]) -> Callable[[int, str], Awaitable[int]]:
    """Return what steps a session over a connection of its own."""
    _, line = await asyncio.get_running_loop().create_connection(Line, server.host, server.port)
    path, episode = f"/v1/sessions/{session['session']}/step", session["episode"]

    async def step(turn: int, action: str) -> int:
        return await line.ask(_post(path, json.dumps({"episode": episode, "turn": turn, "action": action}).encode()))

    return step


class Socket:
    """One socket for all sessions."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._numbers = itertools.count(1)
        self._task = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    async def opened(cls, server: Server) -> Socket:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        head = "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        writer.write(f"{head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        return cls(reader, writer)

    async def step(self, session: dict[str, str], turn: int, action: str) -> int:
        number = next(self._numbers)
        found = self._waiting[number] = asyncio.get_running_loop().create_future()
        names = {"session": session["session"], "episode": session["episode"]}
        frame = {"id": number, "op": "step", **names, "turn": turn, "action": action}
        self._writer.write(_frame(json.dumps(frame).encode()))
        return await found

    async def _read(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                first, second = await self._reader.readexactly(2)
                size = second & 0x7F
                if size >= 126:
                    size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8), "big")
                data = await self._reader.readexactly(size)
                if first & 0x0F == 9:
                    self._writer.write(
                        bytes([0x8A, 0x80 | size]) + b"\0\0\0\0" + data
                    )  # a pong says what its ping said
                elif first & 0x0F == 1:
                    head = data[:60].split(b",")
                    self._waiting.pop(int(head[0][6:])).set_result(int(head[1][9:]))


async def begin(server: Server, count: int) -> list[dict[str, str]]:
    """Begin the sessions, some hundreds at a time."""
    made: list[dict[str, str]] = []
    for start in range(0, count, GROUP):
        tasks = [{"split": "train", "seed": seed} for seed in range(start, min(start + GROUP, count))]
        made += (await _ask(server, "/v1/sessions", {"env": "household", "key": f"load-{start}", "tasks": tasks}))[
            "sessions"
        ]
    return made


async def steps_of(
    step: Callable[[int, str], Awaitable[int]], first: float, seconds: int, late: list[float], wrong: list[int]
) -> None:
    """Step once a second; a session that is late steps at once, and is late still."""
    for turn in range(1, seconds + 1):
        due = first + turn - 1
        if (wait := due - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        status = await step(turn, "inventory" if turn % 2 else "look")
        late.append(time.monotonic() - due)
        if status != 200:
            wrong.append(status)
            return


async def load(server: Server, count: int, seconds: int, door: str) -> tuple[list[float], list[int], float]:
    """Return how late the answers came, what was not answered well, and the server's CPU seconds a second."""
    made = await begin(server, count)
    if door == "socket":
        socket = await Socket.opened(server)
        steppers = [lambda turn, action, one=one: socket.step(one, turn, action) for one in made]
    else:
        steppers = [await http_line(server, one) for one in made]
    late: list[float] = []
    wrong: list[int] = []
    first, spent = time.monotonic() + 1, cpu_of(server.process.pid)
    await asyncio.gather(
        *(steps_of(step, first + place / count, seconds, late, wrong) for place, step in enumerate(steppers))
    )
    return late, wrong, (cpu_of(server.process.pid) - spent) / seconds


def main() -> int:
    """Load and say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--door", choices=("http", "socket"), action="append", help="one, or several")
    args = parser.parse_args()
    failed = False
    for door in args.door or ("http", "socket"):
        with tempfile.TemporaryDirectory() as name, serving(Path(name), f"{name}/journal.db") as server:
            late, wrong, cores = uvloop.run(load(server, args.sessions, args.seconds, door))
        cuts = statistics.quantiles(late, n=100)
        failed |= bool(wrong) or cuts[98] > MOST_P99
        print(
            f"{args.sessions} sessions over {door}, a step a second each, {args.seconds} s: {len(late)} steps, "
            f"p50 {cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms, longest {max(late) * 1e3:.0f} ms, "
            f"{len(wrong)} errors; server {cores:.2f} cores, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
