"""How far a player knows when it is right: for players that report a confidence in [0, 1] with each episode."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from agentenvs.harness.statistics.draws import Real

BINS = 10
BINNING = "10 bins of equal width, the upper edge inside"


class Bin(NamedTuple):
    """The episodes of one bin of confidence."""

    low: float
    high: float
    episodes: int
    confidence: float
    """Mean of what was said."""
    accuracy: float
    """Share that was won."""


class Calibration(NamedTuple):
    """All of it."""

    episodes: int
    ece: float
    brier: float
    auroc: float | None
    """None where all or none were won."""
    aurc: float
    bins: list[Bin]
    risk_coverage: list[tuple[float, float]]


def calibration(confidence: ArrayLike, won: ArrayLike, bins: int = BINS) -> Calibration:
    """Return every measure of this module.

    Raises:
        ValueError: As for each of them.
    """
    said, right = checked(confidence, won)
    parts = reliability(said, right, bins)
    curve, area = risk_coverage(said, right)
    return Calibration(said.size, ece(parts), brier(said, right), auroc(said, right), area, parts, curve)


def checked(confidence: ArrayLike, won: ArrayLike) -> tuple[Real, Real]:
    """Return both as floats.

    Raises:
        ValueError: None, not as many, a confidence outside [0, 1], or an outcome that is neither 0 nor 1.
    """
    said, right = np.asarray(confidence, dtype=np.float64), np.asarray(won, dtype=np.float64)
    if said.size == 0 or said.shape != right.shape or said.ndim != 1:
        raise ValueError("a confidence is needed for each outcome, and at least one")
    if not ((said >= 0) & (said <= 1)).all():
        raise ValueError("a confidence is not in [0, 1]")
    if not ((right == 0) | (right == 1)).all():
        raise ValueError("an outcome is neither won nor lost")
    return said, right


def reliability(confidence: Real, won: Real, bins: int = BINS) -> list[Bin]:
    """Return the bins of equal width that hold something; the upper edge belongs to a bin, and 0 to the first."""
    place = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    found = []
    for number in range(bins):
        here = place == number
        if count := int(here.sum()):
            said, right = math.fsum(confidence[here]) / count, math.fsum(won[here]) / count
            found.append(Bin(number / bins, (number + 1) / bins, count, said, right))
    return found


def ece(bins: list[Bin]) -> float:
    """Return the expected calibration error: the mean gap of confidence and accuracy, weighted by episodes.

    Source: Naeini, Cooper and Hauskrecht (2015), Obtaining well calibrated probabilities using Bayesian binning, AAAI.
    """
    count = sum(part.episodes for part in bins)
    return math.fsum(part.episodes * abs(part.confidence - part.accuracy) for part in bins) / count


def brier(confidence: Real, won: Real) -> float:
    """Return the mean squared gap of confidence and outcome (Brier (1950), Monthly Weather Review 78)."""
    return math.fsum((confidence - won) ** 2) / confidence.size


def auroc(confidence: Real, won: Real) -> float | None:
    """Return the chance that a won episode has more confidence than a lost one, ties by half; None without both.

    Source: Hanley and McNeil (1982), Radiology 143: Mann and Whitney's U over the number of pairs.
    """
    lost = np.sort(confidence[won == 0])
    right = confidence[won == 1]
    if not lost.size or not right.size:
        return None
    below = np.searchsorted(lost, right, side="left").sum()
    up_to = np.searchsorted(lost, right, side="right").sum()
    return float(below + up_to) / float(2 * lost.size * right.size)


def risk_coverage(confidence: Real, won: Real) -> tuple[list[tuple[float, float]], float]:
    """Return the curve of (coverage, risk), and the area under it.

    The most confident episodes are answered first; the risk is the share of them that was lost. Equal confidence is
    drawn in random order: the expected curve, so that no order of the file matters. The area is the mean risk over all
    coverages. Source: Geifman, Uziel and El-Yaniv (2019), Bias-reduced uncertainty estimation, ICLR.
    """
    values, counts = np.unique(confidence, return_counts=True)
    curve: list[tuple[float, float]] = []
    risks: list[float] = []
    done, lost = 0, 0.0
    for value, count in zip(values[::-1], counts[::-1], strict=True):
        lost_here = float((won[confidence == value] == 0).sum())
        risks += [(lost + lost_here * step / count) / (done + step) for step in range(1, int(count) + 1)]
        done, lost = done + int(count), lost + lost_here
        curve.append((done / confidence.size, lost / done))
    return curve, math.fsum(risks) / len(risks)
