"""What came of one part of an audit: a row of its table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from agentenvs.core.canon import JSON
from agentenvs.core.portable import total
from agentenvs_scoring.stats import Z95, wilson

Outcome: TypeAlias = Literal["held", "breach", "unclear", "open", "skipped"]
"""``unclear``: more than it may earn in the mean, but chance could explain it; ``open``: a hole that is declared."""

WIDE = 1e5
"""A range of rewards from which on it says nothing of what an episode may pay."""


class Bounds(NamedTuple):
    """A two-sided 95 % interval of a mean."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    """``theme.what``; stable."""
    tries: str
    """What is tried, or what must hold, one sentence."""
    verdict: Outcome
    evidence: str = ""
    """What was seen: the first breach, with its task, or how much was tried."""
    ceiling: float | None = None
    """The most it may earn: in an episode, or in the mean where ``mean`` is given."""
    earned: float | None = None
    """What it earned: the most of an episode, or the mean where ``mean`` is given."""
    interval: Bounds | None = None
    """Of the mean, where chance has a share in it."""
    episodes: int = 0
    lost: str = ""
    """What stays unknown where it was skipped."""

    @property
    def theme(self) -> str:
        """The part of the audit."""
        return self.name.partition(".")[0]

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {
            "row": self.name,
            "tries": self.tries,
            "verdict": self.verdict,
            "evidence": self.evidence,
            "ceiling": self.ceiling,
            "earned": self.earned,
            "interval": None if self.interval is None else list(self.interval),
            "episodes": self.episodes,
            "lost": self.lost,
        }


def skipped(name: str, tries: str, why: str, lost: str = "") -> Row:
    """Return a row of what could not be tried."""
    return Row(name, tries, "skipped", why, lost=lost)


def opened(row: Row, why: str) -> Row:
    """Return a breach as a hole that is known and declared; other rows as they are."""
    return replace(row, verdict="open", evidence=f"{row.evidence}; declared: {why}") if row.verdict == "breach" else row


def bounds(values: Sequence[float], low: float, high: float, z: float = Z95) -> Bounds | None:
    """Return an interval of the mean of values in a range; None where the range says nothing.

    Wilson's, with the sum of the values, scaled to the unit range and rounded outwards, for the number of successes: a
    value between 0 and 1 varies no more than one that is 0 or 1 with the same mean.

    Args:
        values: One an episode, at least one.
        low: Least a value can be.
        high: Most it can be.
        z: Quantile of the normal distribution; 95 % where none is named.
    """
    if not values or not 0 < high - low < WIDE:
        return None
    count = len(values)
    share = total(min(max((value - low) / (high - low), 0.0), 1.0) for value in values)
    least = wilson(math.floor(share + 1e-9), count, z).low
    most = wilson(min(math.ceil(share - 1e-9), count), count, z).high
    return Bounds(low + least * (high - low), low + most * (high - low))
