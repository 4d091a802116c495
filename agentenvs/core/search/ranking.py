"""The best of many integer scores: exact, by score and then by number, without sorting them all.

A bound for the k-th best score is found first (of a long array from the maxima of its blocks, which belong to
different documents, so that the k-th best of them is reached by k documents), and only what reaches it is sorted.
"""

from __future__ import annotations

import numpy as np

from agentenvs.core.search.bundle import Array

BLOCK = 256
_LONG = 1 << 15


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
    blocks = scores.size // BLOCK
    if scores.size >= _LONG and blocks >= 4 * most:
        return _kth_of_few(scores[: blocks * BLOCK].reshape(blocks, BLOCK).max(axis=1), most)
    return _kth_of_few(scores, most)


def _kth_of_few(scores: Array, most: int) -> int:
    return int(np.partition(scores, scores.size - most)[scores.size - most])
