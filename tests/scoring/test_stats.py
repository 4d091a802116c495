from __future__ import annotations

import pytest

from agentenvs_scoring import stats


@pytest.mark.parametrize(
    ("successes", "episodes", "low", "high"),
    [
        (8, 10, 0.490162, 0.943318),  # R: prop.test(8, 10, correct = FALSE)
        (0, 10, 0.0, 0.277533),
        (10, 10, 0.722467, 1.0),
        (35, 50, 0.562, 0.809),
        (280, 400, 0.653, 0.743),
        (700, 1000, 0.671, 0.728),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_intervals_as_published(successes: int, episodes: int, low: float, high: float) -> None:
    assert stats.wilson(successes, episodes) == pytest.approx((low, high), abs=6e-4)


@pytest.mark.parametrize("numbers", [(3, 2), (-1, 5)])
def test_wilson_refuses_nonsense(numbers: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="successes of"):
        stats.wilson(*numbers)


def test_wilson_is_the_same_everywhere_to_the_last_bit() -> None:
    assert [bound.hex() for bound in stats.wilson(37, 61)] == ["0x1.ecb87da097e7ep-2", "0x1.704a401921a5bp-1"]


def test_the_difference_that_can_be_told_and_the_episodes_it_takes() -> None:
    assert stats.episodes_to_tell(0.7, 0.05) == 1319
    assert stats.smallest_difference(0.7, 1319) == pytest.approx(0.05, abs=1e-4)
    assert stats.smallest_difference(1.0, 20) > 0.1
    assert stats.smallest_difference(0.5, 0) == stats.smallest_difference(0.5, 1) == 1.0
    assert stats.episodes_to_tell(1.0, 0.05) == stats.episodes_to_tell(0.95, 0.05)
    with pytest.raises(ValueError, match="cannot be planned"):
        stats.episodes_to_tell(0.5, 0.0)


@pytest.mark.parametrize(
    ("successes", "trials", "k", "at", "all_of"),
    [(2, 5, 3, 0.9, 0.0), (3, 4, 2, 1.0, 0.5), (0, 4, 2, 0.0, 0.0), (4, 4, 4, 1.0, 1.0), (1, 4, 1, 0.25, 0.25)],
)
def test_pass_at_and_pass_all(successes: int, trials: int, k: int, at: float, all_of: float) -> None:
    assert stats.pass_at(successes, trials, k) == at
    assert stats.pass_all(successes, trials, k) == all_of


@pytest.mark.parametrize("numbers", [(1, 4, 0), (1, 4, 5), (5, 4, 1)])
def test_pass_refuses_nonsense(numbers: tuple[int, int, int]) -> None:
    for measure in (stats.pass_at, stats.pass_all):
        with pytest.raises(ValueError, match="k = "):
            measure(*numbers)


def test_mean_of_nothing_is_nothing() -> None:
    assert (stats.mean([]), stats.mean([1.0, 2.0])) == (0.0, 1.5)
