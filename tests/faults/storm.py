"""A storm: many clients play on a server that is killed, cut off or starved, again and again; then the account."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from agentenvs.core.streams import Stream, scenario_key
from tests.faults import accounts
from tests.faults.calling import Batcher, Caller, Counts
from tests.faults.players import DURABILITY, Book, Career, Shipped
from tests.faults.processes import ENVS, Server

Weather = Callable[[Stream, Book], Awaitable[None]]
"""What is done to the server while clients play; the storm is over when it returns."""


@dataclass(frozen=True)
class Report:
    """What came of it."""

    name: str
    kills: int
    sessions: int
    episodes: int
    turns: int
    counts: Counts
    wrongs: Counter[str]
    said: str
    """The first faults in words."""
    seconds: float
    book: Book = field(repr=False)

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, doubled, swapped or refused, and nothing diverged or failed."""
        return not any(self.wrongs.values())


async def storm(
    name: str,
    servers: Sequence[Server],
    weather: Weather,
    *,
    clients: int = 32,
    seed: int = 0,
    fresh: bool = False,
    durability: Sequence[str] = DURABILITY,
) -> Report:
    """Let clients play while the weather lasts, and account for every turn.

    Args:
        name: For the report.
        servers: On one journal, running; each request of a client over HTTP goes to one of them.
        weather: What is done to them.
        clients: Two in eight over the package's socket, two in eight in batches, the others over HTTP alone.
        seed: Of all chance but the scheduling of processes.
        fresh: Whether each request over HTTP has a connection of its own.
        durability: Of sessions over HTTP.
    """
    began = time.monotonic()
    book, counts = await play(name, servers, weather, clients=clients, seed=seed, fresh=fresh, durability=durability)
    ports, key = [server.port for server in servers], scenario_key("faults", name, seed)
    await accounts.fetch(book, Caller(ports, Stream(key, "account"), counts))
    wrongs = await asyncio.to_thread(accounts.audit, book, servers[0].journal)
    return Report(
        name=name,
        kills=sum(server.kills for server in servers),
        sessions=book.sessions,
        episodes=len(book.tales),
        turns=book.turns,
        counts=counts,
        wrongs=wrongs,
        said=accounts.told(book.faults),
        seconds=time.monotonic() - began,
        book=book,
    )


async def play(
    name: str,
    servers: Sequence[Server],
    weather: Weather,
    *,
    clients: int,
    seed: int = 0,
    fresh: bool = False,
    durability: Sequence[str] = DURABILITY,
) -> tuple[Book, Counts]:
    """Let clients play while the weather lasts, and return what they saw; see :func:`storm`."""
    book, counts, stop = Book(), Counts(), asyncio.Event()
    key = scenario_key("faults", name, seed)
    ports = [server.port for server in servers]
    batcher = Batcher(Caller(ports, Stream(key, "batcher"), counts))
    tasks = []
    for number in range(clients):
        stream, env = Stream(key, f"client {number}"), ENVS[number % len(ENVS)]
        if number % 8 in (0, 1):
            player: Shipped | Career = Shipped(env, servers[number % len(servers)].url, stream, book)
        else:
            caller = Caller(ports, Stream(key, f"caller {number}"), counts, fresh=fresh)
            player = Career(env, caller, batcher if number % 8 in (2, 3) else None, stream, book, durability)
        tasks.append(asyncio.create_task(player.run(stop)))
    await weather(Stream(key, "weather"), book)
    stop.set()
    await asyncio.gather(*tasks)
    return book, counts
