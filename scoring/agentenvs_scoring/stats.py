"""Statistics of many episodes: intervals first, because a rate without one invites belief.

All started episodes count in ``n``. Only ``+ - * /`` and ``sqrt`` are used, so a summary has the same bytes everywhere.
"""

from __future__ import annotations

import math
from typing import NamedTuple

Z95 = 1.959963984540054
"""97.5 % quantile of the standard normal distribution."""

Z80 = 0.8416212335729143
"""80 % quantile of the standard normal distribution."""


class Interval(NamedTuple):
    """A two-sided 95 % confidence interval."""

    low: float
    high: float


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
