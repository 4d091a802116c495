"""Tests of paired differences, and the correction for several of them.

All are two-sided. Exact where that is cheap; else by Monte Carlo, where the observed outcome counts as one of the
draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from agentenvs.harness.statistics.draws import Draws, Whole, whole

FLIPS = 10_000

_MOST_EXACT = 18
"""Differing pairs up to which all sign flips are looked at."""

_FEW = 12
"""Sizes of differences up to which only their signs are counted."""


class PValue(NamedTuple):
    """A p-value and where it comes from."""

    p_value: float
    method: str


def mcnemar(only_first: int, only_second: int) -> PValue:
    """Return McNemar's exact test of two success rates on the same scenarios.

    Of the pairs that differ, as many are expected each way: twice the smaller tail of a binomial at 1/2, in whole
    numbers up to the last division. Source: McNemar (1947), Psychometrika 12; exact form: Agresti, Categorical Data
    Analysis, section 11.1.

    Args:
        only_first: Scenarios only the first won.
        only_second: Scenarios only the second won.

    Raises:
        ValueError: A negative number.
    """
    if min(only_first, only_second) < 0:
        raise ValueError("counts cannot be negative")
    differ, few = only_first + only_second, min(only_first, only_second)
    tail = term = 1
    for k in range(few):
        term = term * (differ - k) // (k + 1)
        tail += term
    return PValue(min(2 * tail / 2**differ, 1.0), "McNemar, exact")


def paired_permutation(differences: ArrayLike, key: bytes, flips: int = FLIPS) -> PValue:
    """Return the sign-flip test of paired differences against a mean of 0.

    Were the two players alike, each difference would be as likely with the other sign (Fisher (1935), The Design of
    Experiments, section 21). Exact where the differences are of one size, which is McNemar's test, or where at most 18
    are not 0; else by Monte Carlo with p = (1 + hits) / (1 + flips), never 0 (Phipson and Smyth (2010), Stat. Appl.
    Genet. Mol. Biol. 9).

    Args:
        differences: One a cluster, shape (n,).
        key: Seed of the Monte Carlo.
        flips: Its draws.

    Raises:
        ValueError: A difference is not finite.
    """
    units, _ = whole(differences)
    units = units[units != 0]
    sizes, counts = np.unique(np.abs(units), return_counts=True)
    if len(sizes) <= 1:
        return PValue(mcnemar(int((units < 0).sum()), int((units > 0).sum())).p_value, "sign flips, exact")
    observed = abs(int(units.sum()))
    if units.size <= _MOST_EXACT:
        sums = np.zeros(1, dtype=np.int64)
        for size in units:
            sums = np.concatenate([sums + size, sums - size])
        return PValue(int((np.abs(sums) >= observed).sum()) / sums.size, "sign flips, exact")
    hits = int((np.abs(_flipped(units, sizes, counts, key, flips)) >= observed).sum())
    return PValue((1 + hits) / (1 + flips), f"sign flips, Monte Carlo of {flips:,}")


def _flipped(units: Whole, sizes: Whole, counts: Whole, key: bytes, flips: int) -> Whole:
    """Return the sums of so many random flips; where few sizes differ, the signs of each are only counted."""
    draws = Draws(key, "permutation")
    if len(sizes) > _FEW:
        return np.concatenate([signs @ units for signs in draws.signs(flips, units.size)])
    sums = np.zeros(flips, dtype=np.int64)
    for size, count in zip(sizes, counts, strict=True):
        up = draws.binomial(np.full(flips, count, dtype=np.int64), 0.5)
        sums += size * (2 * up - count)
    return sums


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for being several, so that the chance of any false alarm stays that of one.

    Source: Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6.

    Args:
        p_values: In any order; the result is in the same.
    """
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        least = max(least, min((len(p_values) - rank) * p_values[place], 1.0))
        adjusted[place] = least
    return adjusted
