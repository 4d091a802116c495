"""How well what methods say agrees with the truth, with intervals, and how much of a gap is the truth's own error.

All measures are over turns, each counted once. Intervals are percentile bootstraps over whole clusters (groups of
episodes of one scenario), drawn with putting back; a resample is a weight a turn, and every measure is written for
weights. Neither truth nor methods are estimated anew in a resample.

``pearson``, ``spearman``  correlation over all turns; ranks of equal values are their mean
``within``                 Pearson after each episode's mean was taken from both: whether turns of an episode are told
                           apart; undefined where a method gives all turns of every episode the same
``sign``                   share of turns with the same sign, among those whose true advantage is not 0; a method's 0
                           counts one half, as a coin would
``clear``                  the same among turns whose true advantage is more than two standard errors from 0
``top``                    overlap of the ``top`` share of turns with the greatest advantages; of equal values each is
                           in it in part. By chance it is that share

The truth is an estimate. Its reliability ``rho`` (the share of its variance that is no error) is estimated by halves:
``rho = 2 r / (1 + r)`` of the correlation r of two halves of the continuations (Spearman 1910; Brown 1910). No method
can be expected above ``sqrt(rho)``, the ceiling; ``corrected`` is Pearson divided by it (Spearman 1904).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentenvs.harness.statistics.draws import Draws
from agentenvs.train.batch import Array
from agentenvs.train.credit_audit.truth import Truth

NOUGHT = 1e-9
"""What is smaller than this share of the greatest value is 0."""
FEW_CLUSTERS = 10
"""With fewer, intervals are too short."""
SURE = 2.0
"""Standard errors beyond which the sign of a true advantage is clear."""
MEASURES = ("pearson", "corrected", "spearman", "within", "sign", "clear", "top")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval; None where it is not defined, or where nothing can be said of it."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of an audit, flat; all arrays of shape ``(turns,)``."""

    truth: Array
    errors: Array
    even: Array
    odd: Array
    episode: npt.NDArray[np.int64]
    cluster: npt.NDArray[np.int64]

    def kept(self, mask: npt.NDArray[np.bool_]) -> Turns:
        """Return some of the turns."""
        return Turns(
            self.truth[mask], self.errors[mask], self.even[mask], self.odd[mask], self.episode[mask], self.cluster[mask]
        )


def turns_of(truths: Sequence[Truth], clusters: Mapping[int, int]) -> Turns:
    """Put the turns of measured episodes in a row.

    Args:
        truths: Of episodes.
        clusters: By episode: its group.
    """
    halves = [one.halves() for one in truths]
    counts = [len(one.rewards) for one in truths]
    return Turns(
        np.concatenate([one.advantages for one in truths]),
        np.concatenate([one.errors for one in truths]),
        np.concatenate([one[0] for one in halves]),
        np.concatenate([one[1] for one in halves]),
        np.repeat([one.episode for one in truths], counts).astype(np.int64),
        np.repeat([clusters[one.episode] for one in truths], counts).astype(np.int64),
    )


# ---- measures under weights ----------------------------------------------------------------------------------------


def cleaned(values: Array) -> Array:
    """Return values with what is 0 but for rounding set to 0."""
    bound = NOUGHT * float(np.abs(values).max(initial=0.0))
    return np.where(np.abs(values) <= bound, 0.0, values)


def pearson(x: Array, y: Array, weight: Array) -> float:
    """Return the weighted correlation; NaN where one does not vary."""
    whole = float(weight.sum())
    if whole <= 0:
        return float("nan")
    x, y = x - float(weight @ x) / whole, y - float(weight @ y) / whole
    square = float(weight @ (x * x)) * float(weight @ (y * y))
    size = float(np.abs(x).max(initial=0.0)) * float(np.abs(y).max(initial=0.0))
    return float(weight @ (x * y)) / square**0.5 if square > (NOUGHT * size) ** 2 * whole else float("nan")


def centred(values: Array, group: npt.NDArray[np.int64]) -> Array:
    """Return values less the mean of their group; group numbers need not be dense."""
    _, dense = np.unique(group, return_inverse=True)
    means = np.bincount(dense, weights=values) / np.bincount(dense)
    scale = float(np.abs(values).max(initial=0.0))
    found = values - means[dense]
    return np.where(np.abs(found) <= NOUGHT * scale, 0.0, found)


class Levels:
    """Values by their order: what ranks and tops are made from."""

    def __init__(self, values: Array) -> None:
        self._levels, self._place = np.unique(values, return_inverse=True)

    def ranks(self, weight: Array) -> Array:
        """Return the mean rank of each value, where each stands ``weight`` times."""
        each = np.bincount(self._place, weights=weight, minlength=len(self._levels))
        return np.asarray((np.cumsum(each) - each / 2)[self._place], dtype=np.float64)

    def top(self, weight: Array, count: float) -> Array:
        """Return how much of each value is among the ``count`` greatest, between 0 and 1."""
        each = np.bincount(self._place, weights=weight, minlength=len(self._levels))
        above = np.cumsum(each[::-1])[::-1] - each
        part = np.clip((count - above) / np.maximum(each, 1e-300), 0.0, 1.0)
        return np.asarray(part[self._place], dtype=np.float64)


def same_sign(truth: Array, values: Array, weight: Array) -> float:
    """Return the share of turns with the truth's sign, a 0 of ``values`` counted one half; NaN of no turns."""
    there = weight * (truth != 0)
    whole = float(there.sum())
    return float(there @ (0.5 + 0.5 * np.sign(truth) * np.sign(values))) / whole if whole > 0 else float("nan")


class Compared:
    """One method's values beside the truth, ready to be measured under any weights.

    Args:
        turns: The truth.
        values: The method's; shape ``(turns,)``.
        top: Share of turns that the overlap looks at.
    """

    def __init__(self, turns: Turns, values: Array, top: float) -> None:
        self.turns, self.values, self._share = turns, cleaned(values), top
        self._truth = cleaned(turns.truth)
        self._levels, self._true_levels = Levels(self.values), Levels(self._truth)
        self._within = centred(self.values, turns.episode), centred(self._truth, turns.episode)
        self._ordered = np.ptp(self.values) > 0 and np.ptp(self._truth) > 0
        self._clear = (np.abs(turns.truth) > SURE * turns.errors).astype(np.float64)

    def measure(self, weight: Array) -> dict[str, float]:
        """Return all measures; NaN where one is not defined."""
        straight = pearson(self.values, self._truth, weight)
        ceiling = reliability(self.turns, weight)
        count = self._share * float(weight.sum())
        mine, true = self._levels.top(weight, count), self._true_levels.top(weight, count)
        return {
            "pearson": straight,
            "corrected": straight / ceiling**0.5 if ceiling else float("nan"),
            "spearman": pearson(self._levels.ranks(weight), self._true_levels.ranks(weight), weight),
            "within": pearson(*self._within, weight),
            "sign": same_sign(self._truth, self.values, weight),
            "clear": same_sign(self._truth, self.values, weight * self._clear),
            "top": float(weight @ (mine * true)) / count if self._ordered else float("nan"),
        }


def reliability(turns: Turns, weight: Array) -> float:
    """Return the share of the truth's variance that is no error, by halves; NaN of no variance."""
    halves = pearson(turns.even, turns.odd, weight)
    return 0.0 if halves <= 0 else 2 * halves / (1 + halves)


# ---- intervals -----------------------------------------------------------------------------------------------------


def resampled(cluster: npt.NDArray[np.int64], resamples: int, seed: int) -> list[Array]:
    """Return weights of turns: how often each one's cluster was drawn, ``resamples`` times."""
    _, dense = np.unique(cluster, return_inverse=True)
    count = int(dense.max(initial=0)) + 1
    draws = Draws(seed.to_bytes(8, "big"), "credit audit")
    return [
        np.bincount(row, minlength=count)[dense].astype(np.float64)
        for rows in draws.indices(resamples, count, count)
        for row in rows
    ]


def with_intervals(
    measure: Callable[[Array], Mapping[str, float]], turns: Turns, weights: Sequence[Array]
) -> dict[str, Estimate]:
    """Return measures with their intervals; none where more than a tenth of the resamples have no value."""
    whole = measure(np.ones(len(turns.truth)))
    each = [measure(weight) for weight in weights]
    found: dict[str, Estimate] = {}
    for name, value in whole.items():
        if not np.isfinite(value):
            found[name] = Estimate(None)
            continue
        drawn = np.sort([one[name] for one in each if np.isfinite(one[name])])
        if len(drawn) < 0.9 * len(each) or not len(drawn):
            found[name] = Estimate(float(value))
            continue
        tail = len(drawn) // 40
        found[name] = Estimate(
            float(value), float(drawn[max(tail - 1, 0)]), float(drawn[min(len(drawn) - tail, len(drawn) - 1)])
        )
    return found


def itself(turns: Turns, weights: Sequence[Array], top: float) -> dict[str, Estimate]:
    """Return what the truth says of itself: reliability, ceiling, and one half against the other."""
    half = Compared(
        Turns(turns.even, turns.errors * 2**0.5, turns.even, turns.odd, turns.episode, turns.cluster), turns.odd, top
    )

    def measure(weight: Array) -> dict[str, float]:
        share = reliability(turns, weight)
        halves = {f"half_{name}": value for name, value in half.measure(weight).items() if name != "corrected"}
        return {"reliability": share, "ceiling": share**0.5, **halves}

    return with_intervals(measure, turns, weights)
