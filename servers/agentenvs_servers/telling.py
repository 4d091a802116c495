"""Tells what a worker, and through it a whole server, counts and has: the text behind ``/metrics``.

Everything is put together when it is asked for. What the journal alone knows is asked there, once in a while.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter as Tally
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenvs._version import __version__
from agentenvs_servers import machine, metering
from agentenvs_servers.journal import operations
from agentenvs_servers.keeping import Journal
from agentenvs_servers.metering import Family, gauge, total
from agentenvs_servers.problems import ProblemError

if TYPE_CHECKING:
    from agentenvs_servers.hall import Hall

JOURNAL_SECONDS = 5.0
"""How old what is told of the journal may be."""

PATIENCE_SECONDS = 2.0
"""How long the journal is waited for."""


class Teller:
    """Tells of a worker.

    Args:
        hall: Its sessions.
    """

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._kept: list[Family] = []
        self._asked = float("-inf")

    async def text(self) -> bytes:
        """Return the metrics of the server."""
        hall = self._hall
        workers = {str(hall.siblings.number): families(hall), **hall.siblings.others()}
        return metering.render(workers, await self._of_journal())

    async def _of_journal(self) -> list[Family]:
        """Return what the journal knows of all workers' sessions; nothing where it does not answer."""
        journal, now = self._hall.journal, time.monotonic()
        if journal is None or now - self._asked < JOURNAL_SECONDS:
            return self._kept
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                rows = await journal.do(operations.open_by_tenant)
        except (ProblemError, TimeoutError):
            return []
        said = "Open sessions in the journal, whichever worker has them."
        samples = [("", {"env": env, "tenant": tenant}, float(count)) for env, tenant, count in rows]
        self._kept = [Family("agentenvs_journal_sessions", "gauge", said, samples)]
        self._asked = now
        return self._kept


def families(hall: Hall) -> Iterator[Family]:
    """Return what a worker counts and has."""
    yield gauge("agentenvs_info", "1, and the version.", 1, version=__version__)
    yield gauge("agentenvs_draining", "Whether the server is stopping.", hall.draining)
    yield gauge("agentenvs_tokens_sound", "Whether the file of tokens could be read.", hall.keyring.is_sound)
    yield from hall.metrics.families()
    yield from _of_sessions(hall)
    if hall.journal is not None:
        yield from _of_writer(hall.journal)
    yield from machine.families()


def _of_sessions(hall: Hall) -> Iterator[Family]:
    live = Tally((session.world.spec.id, session.tenant) for session in hall.open)
    # A worker without sessions has to say so, or an autoscaler that counts them takes it for a full one.
    counts = {(world.spec.id, ""): 0 for world in hall.worlds.values()} | live
    samples = [("", {"env": env, "tenant": tenant}, float(count)) for (env, tenant), count in sorted(counts.items())]
    yield Family("agentenvs_sessions", "gauge", "Open sessions in this worker's memory.", samples)
    turns = [("", {"env": world.spec.id}, float(world.turns)) for world in hall.worlds.values()]
    yield Family("agentenvs_turns_total", "counter", "Turns that were played.", turns)
    yield gauge("agentenvs_sessions_limit", "Sessions that may be open.", hall.settings.max_sessions)
    yield gauge("agentenvs_kept_bytes", "What records and closed sessions take in memory.", hall.tools.kept_bytes)
    yield gauge("agentenvs_connections", "Open connections, sockets among them.", hall.connections())


def _of_writer(journal: Journal) -> Iterator[Family]:
    stats = journal.stats
    name, said = "agentenvs_journal_group", "Requests that went into a transaction of the journal."
    yield Family(name, "histogram", said, list(stats.sizes.samples({})))
    name, said = "agentenvs_journal_commit_seconds", "Seconds that a transaction of the journal took."
    yield Family(name, "histogram", said, list(stats.seconds.samples({})))
    yield total("agentenvs_journal_turns_total", "Turns that were written.", stats.turns)
    yield total("agentenvs_journal_failures_total", "Transactions that the journal did not take.", stats.failures)
    yield gauge("agentenvs_journal_waiting", "Requests that wait for the journal.", journal.waiting)
