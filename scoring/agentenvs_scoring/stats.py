"""Statistics of many episodes: intervals first, because a rate without one invites belief.

All started episodes count in ``n``. Only ``+ - * /`` and ``sqrt`` are used, so a summary has the same bytes everywhere.
Comparisons, and what needs resampling, stand in ``agentenvs.harness.statistics``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from agentenvs.core.portable import total

Z95 = 1.959963984540054
"""97.5 % quantile of the standard normal distribution."""

Z80 = 0.8416212335729143
"""80 % quantile of the standard normal distribution."""


class Interval(NamedTuple):
    """A two-sided 95 % confidence interval."""

    low: float
    high: float


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean, summed in order; 0.0 of nothing."""
    return total(values) / len(values) if values else 0.0


def wilson(successes: int, episodes: int, z: float = Z95) -> Interval:
    """Return the Wilson score interval of a success rate.

    Source: E. B. Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22.

    Args:
        successes: Episodes that succeeded.
        episodes: Episodes in all; 0 gives the whole of [0, 1].
        z: Quantile of the normal distribution.

    Raises:
        ValueError: More successes than episodes, or a negative number.
    """
    if not 0 <= successes <= episodes:
        raise ValueError(f"{successes} successes of {episodes} episodes")
    if episodes == 0:
        return Interval(0.0, 1.0)
    rate = successes / episodes
    spread = z * z / episodes
    centre = (rate + spread / 2) / (1 + spread)
    half = z * math.sqrt(rate * (1 - rate) / episodes + spread / (4 * episodes)) / (1 + spread)
    low = 0.0 if successes == 0 else max(centre - half, 0.0)
    high = 1.0 if successes == episodes else min(centre + half, 1.0)
    return Interval(low, high)


def smallest_difference(rate: float, episodes: int) -> float:
    """Return the difference of two success rates that this many episodes an arm can tell apart.

    Two-sided test at 5 %, power 80 %, unpaired, both arms near ``rate``: ``(z95 + z80) sqrt(2 p (1 - p) / n)``
    (Fleiss, Levin and Paik, Statistical Methods for Rates and Proportions, chapter 4). At a rate of 0 or 1 the
    variance of the Wilson midpoint stands in for zero.

    Args:
        rate: Success rate in [0, 1].
        episodes: Episodes an arm; 0 tells nothing apart.
    """
    if episodes == 0:
        return 1.0
    low, high = wilson(round(rate * episodes), episodes)
    middle = rate if 0.0 < rate < 1.0 else (low + high) / 2
    return min((Z95 + Z80) * math.sqrt(2 * middle * (1 - middle) / episodes), 1.0)


def episodes_to_tell(rate: float, difference: float) -> int:
    """Return how many episodes an arm it takes to tell two success rates apart: the inverse of the above.

    Args:
        rate: Success rate in [0, 1] near which both arms lie; taken as at least ``difference`` away from 0 and 1,
            where the rate was measured on too few episodes to believe in certainty.
        difference: To be seen, in (0, 0.5].

    Raises:
        ValueError: A difference that is not in that range.
    """
    if not 0.0 < difference <= 0.5:
        raise ValueError(f"a difference of {difference} cannot be planned for")
    middle = min(max(rate, difference), 1 - difference)
    return math.ceil(2 * middle * (1 - middle) * (Z95 + Z80) ** 2 / (difference * difference))


def pass_at(successes: int, trials: int, k: int) -> float:
    """Return pass@k of one task: the chance that at least one of ``k`` of its trials succeeded.

    Source: M. Chen et al. (2021), Evaluating Large Language Models Trained on Code, equation 1:
    ``1 - C(n - c, k) / C(n, k)``, unbiased, in whole numbers up to the last division.

    Args:
        successes: Trials that succeeded.
        trials: Trials in all; best at least ``2 k``.
        k: Trials drawn, without putting back.

    Raises:
        ValueError: ``k`` is not in ``1 .. trials``, or more trials succeeded than there were.
    """
    _check_trials(successes, trials, k)
    every = math.comb(trials, k)
    return (every - math.comb(trials - successes, k)) / every


def pass_all(successes: int, trials: int, k: int) -> float:
    """Return pass^k of one task: the chance that all of ``k`` of its trials succeeded.

    Source: S. Yao et al. (2024), tau-bench, section 3: ``C(c, k) / C(n, k)``.

    Args:
        successes: Trials that succeeded.
        trials: Trials in all; best at least ``2 k``.
        k: Trials drawn, without putting back.

    Raises:
        ValueError: ``k`` is not in ``1 .. trials``, or more trials succeeded than there were.
    """
    _check_trials(successes, trials, k)
    return math.comb(successes, k) / math.comb(trials, k)


def _check_trials(successes: int, trials: int, k: int) -> None:
    if not 1 <= k <= trials or not 0 <= successes <= trials:
        raise ValueError(f"k = {k} of {trials} trials, {successes} of which succeeded")
