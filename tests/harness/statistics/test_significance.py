"""Tests of differences against scipy, brute force and repeated sampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from agentenvs.harness import statistics


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_scipys_binomial_test(first: int, second: int) -> None:
    theirs = scipy_stats.binomtest(first, first + second, 0.5).pvalue if first + second else 1.0
    assert statistics.mcnemar(first, second).p_value == pytest.approx(theirs, rel=1e-9)


def test_mcnemar_of_many_pairs_is_quick_and_right() -> None:
    theirs = scipy_stats.binomtest(4800, 10_000, 0.5).pvalue
    assert statistics.mcnemar(4800, 5200).p_value == pytest.approx(theirs, rel=1e-9)
    assert statistics.mcnemar(0, 5000).p_value == 0.0  # 2 ** -4999 is below what a float holds
    with pytest.raises(ValueError, match="negative"):
        statistics.mcnemar(-1, 2)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.75, -0.5, 0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=9))
def test_few_differences_are_counted_out_as_scipy_does(values: list[float]) -> None:
    theirs = scipy_stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    ours = statistics.paired_permutation(values, b"key")
    assert ours.method == "sign flips, exact"
    assert ours.p_value == pytest.approx(min(float(theirs.pvalue), 1.0), abs=1e-9)


def test_one_attempt_each_is_mcnemar() -> None:
    values = [1.0] * 30 + [-1.0] * 14 + [0.0] * 100
    ours = statistics.paired_permutation(values, b"key")
    assert ours == (statistics.mcnemar(14, 30).p_value, "sign flips, exact")


@pytest.mark.parametrize("sizes", [[0.25, 0.5], list(np.linspace(0.1, 1, 40))], ids=["few sizes", "all different"])
def test_a_monte_carlo_comes_near_and_is_never_nothing(sizes: list[float]) -> None:
    values = np.resize(sizes, 40) * np.where(np.arange(40) % 3 == 0, -1, 1)
    ours = statistics.paired_permutation(values, b"key", 20_000)
    assert ours.method == "sign flips, Monte Carlo of 20,000"
    assert ours == statistics.paired_permutation(values, b"key", 20_000)
    normal = 2 * scipy_stats.norm.sf(abs(values.sum()) / np.sqrt((values**2).sum()))
    assert ours.p_value == pytest.approx(normal, abs=0.02)
    assert statistics.paired_permutation(np.abs(values), b"key", 500).p_value == pytest.approx(1 / 501)


def test_a_monte_carlo_does_not_depend_on_how_flips_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [0.25] * 20 + [-0.5] * 12 + [0.75] * 3
    counted = statistics.paired_permutation(values, b"key", 20_000).p_value
    monkeypatch.setattr("agentenvs.harness.statistics.significance._FEW", 0)
    assert statistics.paired_permutation(values, b"key", 20_000).p_value == pytest.approx(counted, abs=0.02)


def test_under_no_difference_it_cries_wolf_as_seldom_as_it_says() -> None:
    generator = np.random.default_rng(3)
    alarms = 0
    for trial in range(300):
        values = (generator.binomial(3, 0.5, 40) - generator.binomial(3, 0.5, 40)) / 3
        alarms += statistics.paired_permutation(values, str(trial).encode(), 500).p_value <= 0.05
    assert alarms / 300 <= 0.09


def test_nothing_differs() -> None:
    assert statistics.paired_permutation([], b"key").p_value == 1.0
    assert statistics.paired_permutation([0.0] * 9, b"key").p_value == 1.0
    with pytest.raises(ValueError, match="finite"):
        statistics.paired_permutation([float("inf")], b"key")


def test_holm_as_worked_by_hand() -> None:
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_lies_between_nothing_and_bonferroni(p_values: list[float]) -> None:
    adjusted = statistics.holm(p_values)
    for before, after in zip(p_values, adjusted, strict=True):
        assert before <= after <= min(len(p_values) * before, 1.0) or after == max(adjusted)
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    assert [adjusted[place] for place in order] == sorted(adjusted)


def test_ranks_claim_no_more_than_the_comparisons() -> None:
    clear = [[1, 0.001, 0.001], [0.001, 1, 0.001], [0.001, 0.001, 1]]
    assert statistics.rank_intervals([0.9, 0.5, 0.1], clear) == [(1, 1), (2, 2), (3, 3)]
    tied = [[1, 0.4, 0.001], [0.4, 1, 0.2], [0.001, 0.2, 1]]
    assert statistics.rank_intervals([0.9, 0.5, 0.1], tied) == [(1, 2), (1, 3), (2, 3)]
