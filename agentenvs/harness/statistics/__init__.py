"""Statistics of runs: what can be said of so many episodes, and what cannot.

Pure functions over numbers, with the source of each formula. Every started episode is one of the numbers; who calls
decides nothing by leaving some out. The rates of one run come from :mod:`agentenvs_scoring.stats`, which needs no
NumPy.
"""

from agentenvs.harness.statistics.calibration import BINNING, Calibration, calibration
from agentenvs.harness.statistics.intervals import (
    RESAMPLES,
    Bootstrap,
    cluster_bootstrap,
    deviation,
    difference_interval,
    one_trial_each,
    paired_rate_interval,
    rate_interval,
    success_interval,
)
from agentenvs.harness.statistics.planning import correlation, smallest_paired_difference, smallest_unpaired_difference
from agentenvs.harness.statistics.ranks import RankInterval, rank_intervals
from agentenvs.harness.statistics.repeats import PASS_ALL, PASS_AT, Repeated, repeated
from agentenvs.harness.statistics.significance import PValue, holm, mcnemar, paired_permutation
from agentenvs_scoring.stats import Interval, episodes_to_tell, pass_all, pass_at, smallest_difference, wilson

__all__ = [
    "BINNING",
    "PASS_ALL",
    "PASS_AT",
    "RESAMPLES",
    "Bootstrap",
    "Calibration",
    "Interval",
    "PValue",
    "RankInterval",
    "Repeated",
    "calibration",
    "cluster_bootstrap",
    "correlation",
    "deviation",
    "difference_interval",
    "episodes_to_tell",
    "holm",
    "mcnemar",
    "one_trial_each",
    "paired_permutation",
    "paired_rate_interval",
    "pass_all",
    "pass_at",
    "rank_intervals",
    "rate_interval",
    "repeated",
    "smallest_difference",
    "smallest_paired_difference",
    "smallest_unpaired_difference",
    "success_interval",
    "wilson",
]
