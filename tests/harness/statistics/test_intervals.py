"""Intervals against other implementations, brute force and repeated sampling."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from agentenvs.harness import statistics
from agentenvs.harness.statistics import draws as drawing
from agentenvs.harness.statistics.draws import Draws, whole


@given(st.integers(0, 400), st.integers(0, 400))
def test_wilson_is_scipys(won: int, lost: int) -> None:
    if won + lost:
        theirs = scipy_stats.binomtest(won, won + lost).proportion_ci(0.95, "wilson")
        assert statistics.wilson(won, won + lost) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


# Written down where this was made: the bits, their map to draws and the sums are whole numbers on every platform.
FEW = ["0x1.593bfa26090a4p-2", "0x1.fd1304637947bp-2"]
MANY = ["0x1.aa91fb3b8a28fp-2", "0x1.0548200af30a4p-1"]


def test_a_bootstrap_is_the_same_everywhere_and_depends_on_its_key() -> None:
    totals = [index % 7 / 7 for index in range(50)]
    found = [statistics.cluster_bootstrap(totals, [1] * 50, key, 2000) for key in (b"a", b"a", b"b")]
    assert found[0] == found[1] != found[2]
    assert [bound.hex() for bound in found[0].interval] == FEW
    many = [math.sqrt(index) / 10 for index in range(50)]
    assert [bound.hex() for bound in statistics.cluster_bootstrap(many, [1] * 50, b"a", 2000).interval] == MANY


@pytest.mark.parametrize("values", [[0.0, 1.0] * 20, list(np.linspace(0, 1, 40))], ids=["few kinds", "all different"])
def test_a_bootstrap_agrees_with_scipys(values: list[float]) -> None:
    ours = statistics.cluster_bootstrap(values, [1.0] * len(values), b"key").interval
    generator = np.random.default_rng(0)
    theirs = scipy_stats.bootstrap((values,), np.mean, method="percentile", n_resamples=9999, rng=generator)
    assert ours == pytest.approx(theirs.confidence_interval, abs=0.02)


def test_a_bootstrap_of_three_clusters_is_what_counting_says() -> None:
    values = [0.0, 3.0, 9.0]
    every = sorted(sum(drawn) / 3 for drawn in itertools.product(values, repeat=3))
    low, high = statistics.cluster_bootstrap(values, [1] * 3, b"key").interval
    assert (low, high) == (every[0], every[-1])  # each has a chance of 1/27, more than the tail of 2.5 %


def test_few_and_many_kinds_draw_from_the_same_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    totals, weights = [2.0, 0.0, 1.0, 3.0] * 25, [2, 1, 1, 3] * 25
    counted = statistics.cluster_bootstrap(totals, weights, b"key").interval
    monkeypatch.setattr("agentenvs.harness.statistics.intervals._FEW", 0)
    gathered = statistics.cluster_bootstrap(totals, weights, b"key").interval
    assert counted == pytest.approx(gathered, abs=0.01)


def test_clusters_make_an_interval_wider_than_their_episodes_do() -> None:
    families = statistics.cluster_bootstrap([10.0, 0.0] * 8, [10] * 16, b"key").interval
    episodes = statistics.cluster_bootstrap([1.0, 0.0] * 80, [1] * 160, b"key").interval
    assert families.high - families.low > 2 * (episodes.high - episodes.low)


def _covers(interval: statistics.Interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high


def test_coverage_of_the_bootstrap_over_clusters() -> None:
    generator = np.random.default_rng(7)
    hits = 0
    for trial in range(300):
        chance = generator.beta(2, 2, size=60)  # of each scenario; its mean is 1/2
        means = generator.binomial(4, chance) / 4
        hits += _covers(statistics.cluster_bootstrap(means, [1] * 60, str(trial).encode(), 1000).interval, 0.5)
    assert 0.90 <= hits / 300 <= 0.985


@pytest.mark.parametrize("count", [12, 40, 200])
def test_coverage_of_paired_rates(count: int) -> None:
    generator = np.random.default_rng(count)
    drawn = generator.multinomial(count, [0.15, 0.05, 0.5, 0.3], size=3000)
    hits = [_covers(statistics.paired_rate_interval(int(a), int(b), count), -0.10) for a, b, *_ in drawn]
    assert 0.935 <= np.mean(hits) <= 0.995


def test_paired_rates_as_published() -> None:
    # Bonett and Price (2012), as R's PropCIs::diffpropci.mp(b = 9, c = 3, n = 50) and by hand.
    low, high = statistics.paired_rate_interval(3, 9, 50)
    a, b = 4 / 52, 10 / 52
    half = scipy_stats.norm.ppf(0.975) * math.sqrt((a + b - (b - a) ** 2) / 52)
    assert (low, high) == pytest.approx((b - a - half, b - a + half), abs=1e-12)


def test_few_clusters_and_clusters_alike_get_an_interval_that_is_not_empty() -> None:
    few = statistics.difference_interval([1.0, 1.0, 0.5], [1.0] * 3, 1.0, b"key")
    assert few.method == "adjusted Wald, one cluster more each way"
    assert few.interval.low < 0 < few.interval.high
    alike = statistics.difference_interval([0.0] * 30, [1.0] * 30, 1.0, b"key").interval
    assert alike == pytest.approx(statistics.paired_rate_interval(0, 0, 30), abs=0.002)
    many = statistics.difference_interval([1.0, 0.0] * 10, [1.0] * 20, 1.0, b"key")
    assert many.method.startswith("cluster bootstrap")
    sure = statistics.rate_interval([1.0] * 20, b"key")
    assert sure == (statistics.wilson(20, 20), "Wilson, a cluster as one trial")
    assert statistics.rate_interval([1 / 3, 2 / 3] * 4, b"key").interval == statistics.wilson(4, 8)
    assert statistics.rate_interval([1 / 3, 2 / 3] * 10, b"key").method.startswith("cluster bootstrap")


def test_where_no_pair_differs_the_interval_is_not_empty_and_shrinks() -> None:
    few, many = statistics.paired_rate_interval(0, 0, 12), statistics.paired_rate_interval(0, 0, 1000)
    assert few.low < -0.1 < 0.1 < few.high
    assert -0.01 < many.low < 0 < many.high < 0.01
    assert statistics.paired_rate_interval(0, 0, 0) == (-1.0, 1.0)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_paired_rates_turn_around_with_the_runs(first: int, second: int, same: int) -> None:
    low, high = statistics.paired_rate_interval(first, second, first + second + same)
    turned = statistics.paired_rate_interval(second, first, first + second + same)
    assert turned == pytest.approx((-high, -low))
    assert -1 <= low <= high <= 1


@pytest.mark.parametrize(
    ("totals", "weights", "resamples"),
    [([], [], 100), ([1.0], [0.0], 100), ([1.0], [1.0, 1.0], 100), ([1.0], [1.0], 39), ([math.nan], [1.0], 100)],
)
def test_a_bootstrap_refuses_nonsense(totals: list[float], weights: list[float], resamples: int) -> None:
    with pytest.raises(ValueError, match=r"cluster|finite|quantile"):
        statistics.cluster_bootstrap(totals, weights, b"key", resamples)
    with pytest.raises(ValueError, match="pairs differ"):
        statistics.paired_rate_interval(3, 3, 5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 3000), st.floats(0, 1))
def test_binomials_have_the_distribution_of_scipys(trials: int, chance: float) -> None:
    low, table = drawing._distribution(trials, chance) if 0 < chance < 1 else (0, np.ones(1))
    if 0 < chance < 1:
        places = np.arange(low, low + len(table))
        assert table == pytest.approx(scipy_stats.binom.cdf(places, trials, chance), abs=1e-9)
    drawn = Draws(b"key", "here").binomial(np.full(20, trials), chance)
    assert ((drawn >= 0) & (drawn <= trials)).all()


def test_counts_of_a_multinomial_add_up_and_have_the_right_means() -> None:
    drawn = Draws(b"key", "here").multinomial(4000, 30, [1, 0, 2, 7])
    assert (drawn.sum(axis=1) == 30).all()
    assert drawn.mean(axis=0) == pytest.approx([3, 0, 6, 21], abs=0.2)


def test_indices_and_signs_are_even() -> None:
    drawn = np.concatenate(list(Draws(b"key", "here").indices(1000, 60, 6)))
    assert np.bincount(drawn.ravel()) / 60_000 == pytest.approx([1 / 6] * 6, abs=0.01)
    signs = np.concatenate(list(Draws(b"key", "here").signs(1000, 70)))
    assert set(signs.ravel()) == {-1, 1}
    assert abs(signs.mean()) < 0.02
    with pytest.raises(ValueError, match="evenly"):
        next(Draws(b"key", "here").indices(1, 1, 0))


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=50))
def test_whole_numbers_hold_their_sum(values: list[float]) -> None:
    units, bits = whole(values)
    assert abs(int(sum(int(unit) for unit in units))) < 2**63
    coarse = max(map(abs, values)) * 1e-12
    assert units * 2.0**-bits == pytest.approx(np.array(values), rel=0, abs=1e-11 + coarse)
