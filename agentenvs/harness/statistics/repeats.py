"""Several attempts at one scenario: pass@k and pass^k over all scenarios, by the conventions that are named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agentenvs.harness.statistics.intervals import RESAMPLES, rate_interval
from agentenvs_scoring.stats import Interval, pass_all, pass_at

PASS_AT = "pass@k: one of k attempts won; 1 - C(n-c, k) / C(n, k) a scenario (Chen et al. 2021), mean over them"
PASS_ALL = "pass^k: all of k attempts won; C(c, k) / C(n, k) a scenario (tau-bench, Yao et al. 2024), mean over them"


class Repeated(NamedTuple):
    """Both rates at one k."""

    k: int
    at: float
    at_interval: Interval
    all: float
    all_interval: Interval


def repeated(attempts: Sequence[tuple[int, int]], key: bytes, resamples: int = RESAMPLES) -> list[Repeated]:
    """Return pass@k and pass^k for k from 1 to the fewest attempts of a scenario, with intervals over scenarios.

    Scenarios are the clusters. Both are unbiased; with k close to the number of attempts they vary much.

    Args:
        attempts: Successes and attempts of each scenario.
        key: Seed.
        resamples: Of the intervals.

    Raises:
        ValueError: No scenario, or one without an attempt.
    """
    if not attempts or not all(count for _, count in attempts):
        raise ValueError("there is no scenario, or one without an attempt")
    rows = []
    for k in range(1, min(count for _, count in attempts) + 1):
        at = [pass_at(won, count, k) for won, count in attempts]
        every = [pass_all(won, count, k) for won, count in attempts]
        rows.append(
            Repeated(
                k,
                sum(at) / len(at),
                rate_interval(at, key, resamples, purpose=f"pass@{k}").interval,
                sum(every) / len(every),
                rate_interval(every, key, resamples, purpose=f"pass^{k}").interval,
            )
        )
    return rows
