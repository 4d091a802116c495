"""Ranks as intervals: a place is claimed only as far as the comparisons bear it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

METHOD = "ranks by simultaneous paired comparisons (Holm, 5 %)"


class RankInterval(NamedTuple):
    """The best and the worst place a player may have; 1 is the best."""

    best: int
    worst: int


def rank_intervals(
    scores: Sequence[float], adjusted: Sequence[Sequence[float]], level: float = 0.05
) -> list[RankInterval]:
    """Return rank intervals that hold together with a confidence of ``1 - level``.

    A player stands below each that is significantly better and above each that is significantly worse; the p-values
    must be adjusted for being several. Source: Mogstad, Romano, Shaikh and Wilhelm (2024), Inference for ranks, Rev.
    Econ. Stud. 91; the ranks of a bootstrap are not used, since they do not cover where players are tied (Xie, Singh
    and Zhang (2009), JASA 104).

    Args:
        scores: One a player; more is better.
        adjusted: Square: the adjusted p-value of each pair.
        level: Of significance.
    """
    found = []
    for mine, row in zip(scores, adjusted, strict=True):
        sure = [score for score, p_value in zip(scores, row, strict=True) if p_value <= level]
        better, worse = sum(score > mine for score in sure), sum(score < mine for score in sure)
        found.append(RankInterval(1 + better, len(scores) - worse))
    return found
