"""What a comparison of so many scenarios can see, and what pairing does for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentenvs.harness.statistics.intervals import adjusted_difference, deviation
from agentenvs_scoring.stats import Z80, Z95


def smallest_paired_difference(totals: Sequence[float], weights: Sequence[float], largest: float = 1.0) -> float:
    """Return the difference that a paired comparison like this one would see four times of five.

    Two-sided test at 5 %, power 80 %: ``(z95 + z80)`` times the standard error of the difference (Miller (2024), Adding
    Error Bars to Evals, section 5), taken from these differences and two more of the largest size, one each way: where
    few pairs differ the standard error is not to be believed (the adjustment of Bonett and Price (2012)).

    Args:
        totals: Sum of the differences of each cluster.
        weights: What each counts for.
        largest: The largest difference there can be; no more is returned.
    """
    _, error = adjusted_difference(totals, weights, largest)
    return min((Z95 + Z80) * error, largest)


def smallest_unpaired_difference(first: Sequence[float], second: Sequence[float], largest: float = 1.0) -> float:
    """Return the difference that two runs like these would show four times of five on scenarios of their own.

    Test and power as above; the variances of both add up. Each run is taken with one value more at either end, where a
    run that always wins would seem to have no variance.

    Args:
        first: Values of one run, one a scenario.
        second: Of the other.
        largest: The largest difference there can be; no more is returned.
    """
    square = math.fsum(
        deviation([*values, min(values, default=0.0), min(values, default=0.0) + largest]) ** 2 / (len(values) + 2)
        for values in (first, second)
    )
    return min((Z95 + Z80) * math.sqrt(square), largest)


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Pearson's correlation of paired values: what pairing gains; None where one of them never changes.

    Raises:
        ValueError: They are not as many.
    """
    count = len(first)
    if count != len(second):
        raise ValueError("paired values must be as many")
    spread = deviation(first) * deviation(second)
    if count < 2 or spread == 0.0:
        return None
    middle, other = math.fsum(first) / count, math.fsum(second) / count
    shared = math.fsum((a - middle) * (b - other) for a, b in zip(first, second, strict=True)) / (count - 1)
    return max(-1.0, min(shared / spread, 1.0))
