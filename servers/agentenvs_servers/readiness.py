"""Whether a server does all that it should, to be asked by a balancer every second.

The journal is known to be writable where it took a turn a moment ago; else it is tried with a row of its own, once for
all who ask, and not more often than every two seconds. One that does not answer in time is not waited for.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from agentenvs_servers.journal import operations
from agentenvs_servers.keeping import Journal
from agentenvs_servers.problems import ProblemError

if TYPE_CHECKING:
    from agentenvs_servers.hall import Hall

FRESH_SECONDS = 2.0
"""How long it is believed that the journal can, or cannot, be written."""

PATIENCE_SECONDS = 2.0
"""How long an answer of the journal is waited for."""


class Readiness:
    """Looks at a server.

    Args:
        hall: Its sessions.
    """

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._probe: asyncio.Task[bool] | None = None
        self._probed = float("-inf")

    async def reasons(self) -> list[str]:
        """Return why it is not ready; empty where it is."""
        found = []
        if self._hall.draining:
            found.append("it is stopping")
        if not self._hall.worlds:
            found.append("it hosts no environment")
        journal = self._hall.journal
        # While it stops, the journal may be closed already.
        if journal is not None and not self._hall.draining:
            if not journal.is_there:
                found.append("its journal was taken away")
            elif journal.stats.is_damaged:
                found.append("its journal is damaged")
            elif not await self._takes(journal):
                found.append("its journal cannot be written")
        return found

    async def _takes(self, journal: Journal) -> bool:
        now = time.monotonic()
        if now - journal.stats.written_at < FRESH_SECONDS:
            return True
        if self._probe is None or (self._probe.done() and now - self._probed >= FRESH_SECONDS):
            self._probed = now
            self._probe = asyncio.get_running_loop().create_task(_is_taken(journal))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await asyncio.shield(self._probe)
        except TimeoutError:
            return False


async def _is_taken(journal: Journal) -> bool:
    try:
        await journal.do_now(operations.probe)
    except ProblemError:
        return False
    return True
