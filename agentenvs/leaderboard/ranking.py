"""Places on a board: as intervals, and only as far as the comparisons of all pairs bear them.

Two rows are compared scenario by scenario: in how many the one did better, in how many the other. That is McNemar's
exact test where each scenario is played once, and the sign test over scenarios where it is played more often. All pairs
of a board are adjusted together by Holm; with ten thousand rows these are fifty million pairs, but only as many
different p-values as there are pairs of counts, so the pairs are counted and not listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentenvs.harness.statistics import RankInterval

LEVEL = 0.05
METHOD = "places by simultaneous paired comparisons of all rows (exact sign test over scenarios, Holm, 5 %)"

_BLOCK = 512
_DENSE = 2_000
"""Scenarios up to which all pairs of counts have a place in a table."""


@dataclass(frozen=True, slots=True)
class Places:
    """The places of all rows."""

    intervals: tuple[RankInterval, ...]
    pairs: int
    """Comparisons that were adjusted together."""
    critical: float
    """The largest p-value that is still significant; 0 where none is."""


def places(wins: NDArray[np.uint8], scores: Sequence[float], level: float = LEVEL) -> Places:
    """Return the interval of places of each row.

    Args:
        wins: Won attempts by row and scenario, shape (rows, scenarios).
        scores: One a row; more is better.
        level: Of significance, for all pairs together.
    """
    rows = len(wins)
    if rows < 2:
        return Places(tuple(RankInterval(1, 1) for _ in range(rows)), 0, 0.0)
    base = wins.shape[1] + 1
    seen: dict[int, int] = {}
    for begin, kinds in _blocks(wins, base):
        _count(kinds, base, seen)
        width = min(_BLOCK, rows - begin)
        seen[0] = seen.get(0, 0) - width * (width + 1) // 2  # those that stand for no pair
    significant, critical = _holm({kind: count for kind, count in seen.items() if count > 0}, base, level)
    better, worse = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    table = np.asarray(scores, dtype=np.float64)
    for begin, kinds in _blocks(wins, base):
        sure = _among(kinds, significant, base)
        mine, others = table[begin : begin + len(kinds), None], table[None, begin:]
        up, down = sure & (others > mine), sure & (others < mine)
        better[begin : begin + len(kinds)] += up.sum(axis=1)
        worse[begin : begin + len(kinds)] += down.sum(axis=1)
        better[begin:] += down.sum(axis=0)
        worse[begin:] += up.sum(axis=0)
    intervals = tuple(RankInterval(1 + int(up), rows - int(down)) for up, down in zip(better, worse, strict=True))
    return Places(intervals, rows * (rows - 1) // 2, critical)


def sign_test(fewer: NDArray[np.int64], total: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return twice the tail of a binomial at 1/2, at most 1: McNemar's exact test.

    Args:
        fewer: Scenarios that went the rarer way.
        total: Scenarios that went either way.
    """
    found = np.ones(len(total))
    for count in np.unique(total):
        steps = np.arange(1, count + 1)
        chances = np.concatenate([[0.0], np.cumsum(np.log(count - steps + 1.0) - np.log(steps))]) - count * np.log(2.0)
        tail = np.minimum(2.0 * np.cumsum(np.exp(chances)), 1.0)
        mine = total == count
        found[mine] = tail[fewer[mine]]
    return found


def _blocks(wins: NDArray[np.uint8], base: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield blocks of rows against all that do not stand above them, with the kind of each pair.

    A kind is how many scenarios went either way, and how many the rarer; 0 stands for no pair where a row would meet
    itself, or a pair of the block a second time.
    """
    most = int(wins.max(initial=0))
    exact = [(wins == level).astype(np.float32) for level in range(1, most + 1)]
    below = [(wins < level).astype(np.float32) for level in range(1, most + 1)]
    for begin in range(0, len(wins), _BLOCK):
        part, rest = slice(begin, begin + _BLOCK), slice(begin, None)
        shape = (len(wins[part]), len(wins) - begin)
        up, down = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
        for same, less in zip(exact, below, strict=True):
            up += same[part] @ less[rest].T
            down += less[part] @ same[rest].T
        kinds = np.minimum(up, down).astype(np.int64)
        up += down
        kinds += up.astype(np.int64) * base
        kinds[np.tril_indices(shape[0])] = 0
        yield begin, kinds


def _count(kinds: NDArray[np.int64], base: int, seen: dict[int, int]) -> None:
    if base <= _DENSE:
        counts = np.bincount(kinds.ravel())
        found = np.flatnonzero(counts)
        numbers = counts[found]
    else:
        found, numbers = np.unique(kinds, return_counts=True)
    for kind, number in zip(found.tolist(), numbers.tolist(), strict=True):
        seen[kind] = seen.get(kind, 0) + number


def _holm(seen: dict[int, int], base: int, level: float) -> tuple[NDArray[np.int64], float]:
    """Return the kinds of pairs that differ significantly, all pairs adjusted together, and the largest p of them."""
    kinds = np.array(sorted(seen), dtype=np.int64)
    if not len(kinds):
        return kinds, 0.0
    p_values = sign_test(kinds % base, kinds // base)
    left, critical = sum(seen.values()), 0.0
    order = np.argsort(p_values, kind="stable")
    taken: list[int] = []
    for place in order:
        if left * p_values[place] > level:
            break
        taken.append(int(kinds[place]))
        critical = float(p_values[place])
        left -= seen[int(kinds[place])]
    return np.array(sorted(taken), dtype=np.int64), critical


def _among(kinds: NDArray[np.int64], wanted: NDArray[np.int64], base: int) -> NDArray[np.bool_]:
    if base > _DENSE:
        return np.isin(kinds, wanted)
    table = np.zeros(base * base, dtype=np.bool_)
    table[wanted] = True
    found: NDArray[np.bool_] = table[kinds]
    return found
