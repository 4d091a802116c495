"""The best of many integer scores: exact, by score and then by number, without sorting them all.

A bound for the k-th best score is found first (of a long array from the maxima of disjoint groups of it, the k-th best
of which k places reach), and only what reaches it is sorted.
"""

from __future__ import annotations

import numpy as np

from agentenvs.core.search.bundle import Array

_GROUPS = 128
_LONG = 4


def best(scores: Array, most: int) -> Array:
    """Return the places of the best scores above zero, best first, equal ones by place.

    Args:
        scores: Integers of at most 32 bits.
        most: How many at most.
    """
    found = np.flatnonzero(scores >= max(kth(scores, most), 1))
    values = scores[found]
    if found.size > 4 * most:
        exact = found[values >= _kth_of_few(values, most)]
        found, values = exact, scores[exact]
    return found[np.argsort(-values.astype(np.int64), kind="stable")[:most]]


def kth(scores: Array, most: int) -> int:
    """Return a score that at least ``most`` places reach, near the largest such; 0 where there are fewer places."""
    if scores.size < most:
        return 0
    groups = max(_GROUPS, 8 * most, scores.size >> 8)
    rows = scores.size // groups
    if rows >= _LONG:  # a group is a column, so that maxima are taken of whole rows at a time
        scores = scores[: rows * groups].reshape(rows, groups).max(axis=0)
    return _kth_of_few(scores, most)


def _kth_of_few(scores: Array, most: int) -> int:
    return int(np.partition(scores, scores.size - most)[scores.size - most])
