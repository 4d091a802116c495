"""What a journal's writer counts; written in its thread, read from the event loop, which may see a count too few."""

from __future__ import annotations

import time

from agentenvs_servers.metering import COMMIT_SECONDS, GROUP_SIZES, Histogram


class Stats:
    """Counters of one journal."""

    def __init__(self) -> None:
        self.sizes = Histogram(GROUP_SIZES)
        """Requests of a transaction."""
        self.seconds = Histogram(COMMIT_SECONDS)
        """Of a transaction, from its beginning to its end on disk or on its way there."""
        self.turns = 0
        """Turns that were written."""
        self.failures = 0
        """Transactions that failed."""
        self.is_damaged = False
        """Whether pages of its file were found to make no sense; that does not mend itself."""
        self.written_at = float("-inf")
        """When a turn was written last, on the machine's monotonic clock."""

    def wrote(self, turns: int) -> None:
        """Count turns that were written."""
        self.turns += turns
        if turns:
            self.written_at = time.monotonic()
