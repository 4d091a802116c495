"""Planning, repeated attempts and calibration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from agentenvs.harness import statistics
from agentenvs.harness.statistics.calibration import checked, risk_coverage


def test_the_smallest_difference_is_seen_four_times_of_five() -> None:
    count, up, down = 400, 0.15, 0.07
    generator = np.random.default_rng(5)
    values = [1.0] * int(up * count) + [-1.0] * int(down * count)
    values += [0.0] * (count - len(values))
    smallest = statistics.smallest_paired_difference(values, [1.0] * count)
    spread = (up + down) / 2
    drawn = generator.multinomial(count, [spread - smallest / 2, spread + smallest / 2, 1 - 2 * spread], size=600)
    seen = [statistics.mcnemar(int(a), int(b)).p_value <= 0.05 for a, b, _ in drawn]
    assert 0.70 <= np.mean(seen) <= 0.87


def test_pairing_pays_and_certainty_is_not_believed() -> None:
    unpaired = statistics.smallest_difference(0.7, 200)
    alike = statistics.smallest_paired_difference([1.0] * 8 + [-1.0] * 4 + [0.0] * 188, [1.0] * 200)
    assert alike < unpaired / 1.5
    assert statistics.smallest_paired_difference([0.0] * 10, [1.0] * 10) > 0.1
    assert statistics.smallest_paired_difference([], []) == 1.0
    families = statistics.smallest_paired_difference([5.0, -4.0] * 5, [10.0] * 10)
    assert families > statistics.smallest_paired_difference([0.5, -0.4] * 50, [1.0] * 100)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=40))
def test_correlation_is_scipys(pairs: list[tuple[int, int]]) -> None:
    first, second = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    ours = statistics.correlation(first, second)
    if len(set(first)) < 2 or len(set(second)) < 2:
        assert ours is None
    else:
        assert ours == pytest.approx(scipy_stats.pearsonr(first, second).statistic, abs=1e-9)


def test_correlation_wants_pairs() -> None:
    with pytest.raises(ValueError, match="as many"):
        statistics.correlation([1.0], [])


@pytest.mark.parametrize(("won", "count"), [(0, 4), (1, 4), (3, 5), (4, 4)])
def test_pass_rates_are_what_drawing_attempts_says(won: int, count: int) -> None:
    attempts = [True] * won + [False] * (count - won)
    for row in statistics.repeated([(won, count)], b"key", 100):
        drawn = list(itertools.combinations(attempts, row.k))
        assert row.at == pytest.approx(sum(map(any, drawn)) / len(drawn))
        assert row.all == pytest.approx(sum(map(all, drawn)) / len(drawn))


def test_pass_rates_over_scenarios() -> None:
    rows = statistics.repeated([(3, 3), (0, 4), (2, 3)], b"key", 200)
    assert [row.k for row in rows] == [1, 2, 3]
    assert rows[0].at == pytest.approx(rows[0].all) == pytest.approx(5 / 9)
    assert rows[2].all == pytest.approx(1 / 3)
    for row in rows:
        assert row.at_interval.low <= row.at <= row.at_interval.high
    for wrong in ([], [(0, 0)]):
        with pytest.raises(ValueError, match=r"scenario|max|k ="):
            statistics.repeated(wrong, b"key")


def test_a_calibrated_player_and_one_that_is_not() -> None:
    said = [0.25] * 40 + [0.75] * 40
    right = ([1] * 10 + [0] * 30) + ([1] * 30 + [0] * 10)
    good = statistics.calibration(said, right)
    assert good.ece == pytest.approx(0.0)
    assert good.brier == pytest.approx(0.1875)
    assert [(part.episodes, part.accuracy) for part in good.bins] == [(40, 0.25), (40, 0.75)]
    bad = statistics.calibration([1.0] * 10, [0] * 10)
    assert (bad.ece, bad.brier, bad.auroc, bad.aurc) == (1.0, 1.0, None, 1.0)


def test_bins_hold_their_upper_edge_and_the_first_holds_nothing_too() -> None:
    found = statistics.calibration([0.0, 0.1, 0.1000001, 1.0], [0, 0, 1, 1]).bins
    assert [(part.low, part.episodes) for part in found] == [(0.0, 2), (0.1, 1), (0.9, 1)]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_auroc_counts_pairs_and_ties_by_half(pairs: list[tuple[int, bool]]) -> None:
    said, right = [a / 5 for a, _ in pairs], [int(b) for _, b in pairs]
    ours = statistics.calibration(said, right).auroc
    won = [value for value, ok in zip(said, right, strict=True) if ok]
    lost = [value for value, ok in zip(said, right, strict=True) if not ok]
    if not won or not lost:
        assert ours is None
    else:
        theirs = scipy_stats.mannwhitneyu(won, lost).statistic / (len(won) * len(lost))
        assert ours == pytest.approx(theirs)


@given(st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.9]), st.booleans()), min_size=1, max_size=6))
def test_the_area_under_risk_and_coverage_is_the_mean_over_all_orders_of_ties(pairs: list[tuple[float, bool]]) -> None:
    said, right = checked([a for a, _ in pairs], [int(b) for _, b in pairs])
    curve, area = risk_coverage(said, right)
    areas = []
    for order in itertools.permutations(range(len(pairs))):
        if all(said[a] >= said[b] for a, b in itertools.pairwise(order)):
            lost = list(itertools.accumulate(1 - right[place] for place in order))
            areas.append(sum(count / (step + 1) for step, count in enumerate(lost)) / len(lost))
    assert area == pytest.approx(sum(areas) / len(areas))
    assert curve[-1] == (1.0, pytest.approx(1 - right.mean()))


@pytest.mark.parametrize(("said", "right"), [([], []), ([0.5], [1, 0]), ([1.5], [1]), ([math.nan], [1]), ([0.5], [2])])
def test_calibration_refuses_nonsense(said: list[float], right: list[int]) -> None:
    with pytest.raises(ValueError, match=r"confidence|outcome"):
        statistics.calibration(said, right)
