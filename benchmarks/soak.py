"""Loads a server for half an hour, and says whether its memory is flat and whether anything leaks.

    python benchmarks/soak.py                # half an hour
    python benchmarks/soak.py --minutes 5 --journal postgresql://postgres@/soak?host=/tmp

Sixteen clients play household, ledger and clerk without pause, over HTTP, in batches and over sockets, with answers
thrown away and connections cut at random; each checks every answer against the same world in process. What is over is
forgotten after a minute, so that a server that forgets nothing would be seen to grow. Exit code 1 where the verdict is
not that all is flat.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agentenvs.core.streams import Stream
from agentenvs_servers.journal.schema import sessions
from tests.envs.fixtures import register_fixtures
from tests.faults import weather
from tests.faults.players import Book
from tests.faults.processes import Server
from tests.faults.storm import play

MIB = 2**20
MOST_GROWTH = 0.05
"""By which memory may be larger in the last third than in the middle one."""


class Look(NamedTuple):
    """What is seen of a server at a time."""

    minute: float
    rss: float
    """MiB."""
    descriptors: int
    threads: int
    open: int
    """Sessions."""
    kept: int
    """Sessions that are open or not yet forgotten."""
    journal: float
    """MiB."""
    turns: int
    """Since the last look."""


def look(server: Server, minute: float, turns: int) -> Look:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{server.pid}/status").read_text().splitlines())
    counts = dict(_asked(server.journal, sa.select(sessions.c.state, sa.func.count()).group_by(sessions.c.state)))
    return Look(
        minute=minute,
        rss=int(status["VmRSS"].split()[0]) / 1024,
        descriptors=len(list(Path(f"/proc/{server.pid}/fd").iterdir())),
        threads=int(status["Threads"]),
        open=counts.get("open", 0),
        kept=sum(counts.values()),
        journal=_size(server.journal) / MIB,
        turns=turns,
    )


def _asked(url: str, query: sa.Select[tuple[str, int]]) -> list[tuple[str, int]]:
    made = sa.make_url(url if "://" in url else f"sqlite:///{url}")
    engine = sa.create_engine(made if made.drivername == "sqlite" else made.set(drivername="postgresql+psycopg"))
    try:
        with engine.connect() as connection:
            return [(state, count) for state, count in connection.execute(query)]
    finally:
        engine.dispose()


def _size(url: str) -> int:
    if "://" not in url:
        return sum(file.stat().st_size for file in Path(url).parent.glob(f"{Path(url).name}*"))
    return _asked(url, sa.select(sa.literal("size"), sa.func.pg_database_size(sa.func.current_database())))[0][1]


def watched(server: Server, minutes: float, every: float, looks: list[Look]) -> weather.Weather:
    """Return the weather in which nothing happens but that somebody looks."""

    async def watch(_: Stream, book: Book) -> None:
        began = time.monotonic()
        while time.monotonic() - began < minutes * 60 and not book.faults:
            before = book.turns
            await asyncio.sleep(every)
            looks.append(await asyncio.to_thread(look, server, (time.monotonic() - began) / 60, book.turns - before))
            show(looks[-1])
            book.tales.clear()  # every answer was checked when it came; their memory is not what is measured

    return watch


def show(seen: Look) -> None:
    print(
        f"{seen.minute:5.1f} min  {seen.rss:7.1f} MiB  {seen.descriptors:4d} descriptors  {seen.threads:3d} threads  "
        f"{seen.open:4d} open, {seen.kept:5d} kept  journal {seen.journal:6.1f} MiB  {seen.turns:7d} turns",
        flush=True,
    )


def verdict(looks: list[Look], left: Look, book: Book) -> list[str]:
    """Return everything that is not as it should be."""
    third = len(looks) // 3
    middle, last = looks[third : 2 * third], looks[-third:]
    faults = [f"{kind}: {words}" for kind, words in book.faults]
    if third < 1:
        return [*faults, "too short to tell"]

    def grown(name: str, of: Callable[[Look], float], slack: float) -> None:
        before, after = (sum(map(of, part)) / len(part) for part in (middle, last))
        if after > before * (1 + MOST_GROWTH) + slack:
            faults.append(f"{name} grew from {before:.1f} to {after:.1f}")

    grown("memory (MiB)", lambda seen: seen.rss, 2.0)
    grown("descriptors", lambda seen: seen.descriptors, 4)
    grown("threads", lambda seen: seen.threads, 2)
    grown("open sessions", lambda seen: seen.open, 4)
    grown("the journal (MiB)", lambda seen: seen.journal, 8)
    if left.open:
        faults.append(f"{left.open} sessions are open that nobody plays")
    return faults


def main() -> int:
    """Load, look and say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=float, default=60, help="seconds between two looks")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--journal", help="file or URL; a temporary file otherwise")
    args = parser.parse_args()
    register_fixtures()
    looks: list[Look] = []
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        server = Server(args.journal or f"{folder}/journal.db", Path(folder) / "log", more=("--retention", "60"))
        server.start()
        try:
            watch = watched(server, args.minutes, args.every, looks)
            book, _ = asyncio.run(play("soak", [server], watch, clients=args.clients))
            left = look(server, args.minutes, 0)
        finally:
            server.close()
        said = (Path(folder) / "log").read_text().splitlines()[1:]
    print(f"at the end: {left.open} sessions open; the server said {len(said)} lines", *said[:5], sep="\n  ")
    faults = verdict(looks, left, book)
    print("\n".join(faults) or f"flat: {book.turns} turns, nothing grew, nothing leaked, every answer was right")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
