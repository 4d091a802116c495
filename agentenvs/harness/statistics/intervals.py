"""Intervals of means and of paired differences.

The unit of sampling is the cluster: a scenario with all its attempts, or a family of scenarios where the caller says
so. A cluster is its total and its weight, and the statistic is the sum of totals over the sum of weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from agentenvs.harness.statistics.draws import Draws, Whole, whole
from agentenvs_scoring.stats import Z95, Interval, wilson

RESAMPLES = 10_000

_FEW = 12
"""Kinds of clusters up to which their counts are drawn instead of the clusters."""

_MOST_DRAWS = 20_000_000
"""Clusters drawn in all; fewer resamples are made where there are many clusters, all different."""

_FEWEST_RESAMPLES = 1_000

FEWEST_CLUSTERS = 10
"""With fewer, a bootstrap says too little of what was not drawn, and is not used."""


class Made(NamedTuple):
    """An interval and how it was made."""

    interval: Interval
    method: str


class Bootstrap(NamedTuple):
    """A bootstrap interval and how it was made."""

    interval: Interval
    resamples: int

    @property
    def method(self) -> str:
        """In words."""
        return f"cluster bootstrap, percentile, {self.resamples:,} resamples"

    @property
    def empty(self) -> bool:
        """Whether nothing varies, so that a bootstrap knows no uncertainty."""
        return self.interval.low == self.interval.high


def cluster_bootstrap(
    totals: ArrayLike, weights: ArrayLike, key: bytes, resamples: int = RESAMPLES, *, purpose: str = "bootstrap"
) -> Bootstrap:
    """Return the 95 % percentile interval of a mean over clusters.

    Whole clusters are drawn with putting back, as many as there are; what is inside is not drawn again (Davison and
    Hinkley (1997), Bootstrap Methods and their Application, section 3.8, strategy 1; why clusters: Miller (2024),
    Adding Error Bars to Evals). Where only a few kinds of clusters differ, the counts of kinds are drawn: the same
    distribution, at a thousandth of the cost. With fewer than about 20 clusters the interval is too short.

    Args:
        totals: Sum of a cluster's values, shape (n,).
        weights: What it counts for, shape (n,), positive: 1 where the total is a mean.
        key: Seed: the same key gives the same interval, on every platform.
        resamples: Draws of all clusters, at least 40.
        purpose: Keeps several bootstraps of one key apart.

    Raises:
        ValueError: No cluster, a weight that is not positive, a value that is not finite, or too few resamples.
    """
    sums, bits = whole(totals)
    shares, share_bits = whole(weights)
    if sums.size == 0 or sums.shape != shares.shape or (shares <= 0).any():
        raise ValueError("a bootstrap needs at least one cluster, and a positive weight for each")
    if resamples < 40:
        raise ValueError(f"{resamples} resamples do not reach the 2.5 % quantile")
    draws = Draws(key, purpose)
    kinds, counts = np.unique(np.stack([sums, shares], axis=1), axis=0, return_counts=True)
    if len(kinds) <= _FEW:
        times = draws.multinomial(resamples, sums.size, counts.tolist())
        top, bottom = times @ kinds[:, 0], times @ kinds[:, 1]
    else:
        resamples = min(resamples, max(_MOST_DRAWS // sums.size, _FEWEST_RESAMPLES))
        top, bottom = _gathered(draws, sums, shares, resamples)
    found = np.sort(top / bottom) * 2.0 ** (share_bits - bits)
    tail = resamples // 40
    return Bootstrap(Interval(float(found[tail - 1]), float(found[resamples - tail])), resamples)


def _gathered(draws: Draws, sums: Whole, shares: Whole, resamples: int) -> tuple[Whole, Whole]:
    parts = [
        (sums[drawn].sum(axis=1), shares[drawn].sum(axis=1)) for drawn in draws.indices(resamples, sums.size, sums.size)
    ]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def paired_rate_interval(only_first: int, only_second: int, pairs: int, z: float = Z95) -> Interval:
    """Return the interval of the difference, second minus first, of two success rates on the same scenarios.

    The adjusted Wald interval of Bonett and Price (2012), Adjusted Wald confidence interval for a difference of
    binomial proportions based on paired data, J. Educ. Behav. Stat. 37: one pair more each way. It holds its level
    from about ten pairs on and is not empty where no pair differs, as a bootstrap is.

    Args:
        only_first: Pairs that only the first won.
        only_second: Pairs that only the second won.
        pairs: Pairs in all; 0 gives the whole of [-1, 1].
        z: Quantile of the normal distribution.

    Raises:
        ValueError: More pairs differ than there are.
    """
    if min(only_first, only_second) < 0 or only_first + only_second > pairs:
        raise ValueError(f"{only_first} and {only_second} of {pairs} pairs differ")
    if pairs == 0:
        return Interval(-1.0, 1.0)
    first, second = (only_first + 1) / (pairs + 2), (only_second + 1) / (pairs + 2)
    half = z * math.sqrt((first + second - (second - first) ** 2) / (pairs + 2))
    return Interval(max(second - first - half, -1.0), min(second - first + half, 1.0))


def difference_interval(
    totals: Sequence[float],
    weights: Sequence[float],
    largest: float,
    key: bytes,
    resamples: int = RESAMPLES,
    *,
    purpose: str = "difference",
) -> Made:
    """Return the interval of a mean paired difference over clusters.

    A cluster bootstrap; with fewer than ten clusters, or where all are alike, an adjusted Wald interval: one cluster
    more of the largest difference each way, as :func:`paired_rate_interval` has it.

    Args:
        totals: Sum of the differences of each cluster.
        weights: What each counts for.
        largest: The largest difference there can be.
        key: Seed.
        resamples: Of the bootstrap.
        purpose: Keeps several bootstraps of one key apart.

    Raises:
        ValueError: As for :func:`cluster_bootstrap`.
    """
    made = cluster_bootstrap(totals, weights, key, resamples, purpose=purpose)
    if len(totals) >= FEWEST_CLUSTERS and not made.empty:
        return Made(made.interval, made.method)
    middle, error = adjusted_difference(totals, weights, largest)
    half = Z95 * error
    interval = Interval(max(middle - half, -largest), min(middle + half, largest))
    return Made(interval, "adjusted Wald, one cluster more each way")


def rate_interval(
    totals: Sequence[float],
    key: bytes,
    resamples: int = RESAMPLES,
    *,
    weights: Sequence[float] | None = None,
    purpose: str = "rate",
) -> Made:
    """Return the interval of a mean of rates over clusters.

    A cluster bootstrap; with fewer than ten clusters, or where all are alike, Wilson's interval as if each cluster were
    one trial, which is never too short.

    Args:
        totals: Of each cluster, from 0 to its weight.
        key: Seed.
        resamples: Of the bootstrap.
        weights: What each cluster counts for: its attempts; 1 where None, so that totals are rates.
        purpose: Keeps several bootstraps of one key apart.

    Raises:
        ValueError: As for :func:`cluster_bootstrap`.
    """
    shares = [1.0] * len(totals) if weights is None else weights
    made = cluster_bootstrap(totals, shares, key, resamples, purpose=purpose)
    count = len(totals)
    if count >= FEWEST_CLUSTERS and not made.empty:
        return Made(made.interval, made.method)
    return Made(one_trial_each(math.fsum(totals), math.fsum(shares), count), "Wilson, a cluster as one trial")


def one_trial_each(won: float, attempts: float, clusters: int) -> Interval:
    """Return Wilson's interval as if each cluster had been one trial: never too short, and needs totals alone."""
    share = won * clusters / attempts if attempts else 0.0
    return Interval(wilson(math.floor(share), clusters).low, wilson(math.ceil(share), clusters).high)


def success_interval(attempts: Sequence[tuple[int, int]], key: bytes, *, purpose: str = "success") -> Made:
    """Return the interval of a success rate: Wilson's; over scenarios where one was played more than once.

    Args:
        attempts: Successes and attempts of each scenario.
        key: Seed.
        purpose: Keeps several bootstraps of one key apart.

    Raises:
        ValueError: As for :func:`cluster_bootstrap`.
    """
    won, times = [won for won, _ in attempts], [count for _, count in attempts]
    if all(count == 1 for count in times):
        return Made(wilson(sum(won), len(won)), "Wilson")
    return rate_interval(won, key, weights=times, purpose=purpose)


def adjusted_difference(totals: Sequence[float], weights: Sequence[float], largest: float) -> tuple[float, float]:
    """Return the mean difference and its standard error, with one cluster of the largest difference more each way.

    The variance of a ratio, linearised: Cochran, Sampling Techniques, section 6.4; the adjustment: Bonett and Price.
    """
    totals, weights = [*totals, largest, -largest], [*weights, 1.0, 1.0]
    weight, count = math.fsum(weights), len(totals)
    ratio = math.fsum(totals) / weight
    square = math.fsum((total - ratio * share) ** 2 for total, share in zip(totals, weights, strict=True))
    return ratio, math.sqrt(square * count / (count - 1)) / weight


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation; 0.0 of fewer than two."""
    if len(values) < 2:
        return 0.0
    middle = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))
