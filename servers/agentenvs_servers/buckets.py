"""Bounds how often something may be done: so much at once, and so much in the long run, for each of many."""

from __future__ import annotations

import math
from collections import OrderedDict

MOST_REMEMBERED = 10_000
"""Names that are remembered; beyond them those that were seen longest ago begin anew."""


class Buckets:
    """A bucket of tokens for each name; it fills with time, and doing something takes from it."""

    def __init__(self) -> None:
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, count: int, *, rate: float, burst: float, now: float) -> float:
        """Take from a bucket, where there is enough in it; return 0 then, else the seconds after which there may be.

        What is more than a full bucket holds is given by a full one, which then owes the rest.

        Args:
            name: Whose bucket.
            count: How much.
            rate: How much flows in each second.
            burst: How much a full one holds.
            now: A clock's time; seconds.
        """
        level, since = self._levels.get(name, (burst, now))
        level = min(level + max(now - since, 0.0) * rate, burst)
        wait = max(min(count, burst) - level, 0.0) / rate
        self._levels[name] = (level if wait > 0 else level - count, now)
        self._levels.move_to_end(name)
        if len(self._levels) > MOST_REMEMBERED:
            self._levels.popitem(last=False)
        return wait


def retry_after(seconds: float) -> dict[str, str]:
    """Return the header that says when to ask again."""
    return {"Retry-After": str(max(math.ceil(seconds), 1))}
