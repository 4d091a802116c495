"""Places: counted pairs give what listed pairs give, and claim no more than the comparisons bear."""

from __future__ import annotations

import numpy as np
import pytest

from agentenvs.harness.statistics import RankInterval, holm, mcnemar, rank_intervals
from agentenvs.leaderboard import ranking


def listed(wins: np.ndarray, scores: list[float]) -> list[RankInterval]:
    """Do it pair by pair."""
    rows = len(wins)
    pairs = [(one, other) for one in range(rows) for other in range(one)]
    values = [
        mcnemar(int((wins[one] > wins[other]).sum()), int((wins[one] < wins[other]).sum())).p_value
        for one, other in pairs
    ]
    square = [[1.0] * rows for _ in range(rows)]
    for (one, other), p_value in zip(pairs, holm(values), strict=True):
        square[one][other] = square[other][one] = p_value
    return rank_intervals(scores, square)


@pytest.mark.parametrize("trials", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_counted_pairs_are_listed_pairs(seed: int, trials: int):
    made = np.random.default_rng(seed)
    skill = made.uniform(0.0, 1.0, size=(17, 1))
    wins = made.binomial(trials, skill, size=(17, 60)).astype(np.uint8)
    scores = (wins.sum(axis=1) / (60 * trials)).tolist()
    found = ranking.places(wins, scores)
    assert list(found.intervals) == listed(wins, scores)
    assert found.pairs == 17 * 16 // 2
    assert found.critical > 0


def test_many_scenarios_go_the_other_way_round(monkeypatch: pytest.MonkeyPatch):
    made = np.random.default_rng(9)
    wins = made.binomial(1, made.uniform(0, 1, size=(9, 1)), size=(9, 80)).astype(np.uint8)
    scores = wins.mean(axis=1).tolist()
    usual = ranking.places(wins, scores)
    monkeypatch.setattr(ranking, "_DENSE", 10)
    monkeypatch.setattr(ranking, "_BLOCK", 4)
    assert ranking.places(wins, scores) == usual


def test_rows_that_are_alike_share_all_places():
    wins = np.ones((5, 30), dtype=np.uint8)
    assert ranking.places(wins, [1.0] * 5).intervals == (RankInterval(1, 5),) * 5


def test_one_row_and_none():
    assert ranking.places(np.ones((1, 3), dtype=np.uint8), [1.0]).intervals == (RankInterval(1, 1),)
    assert ranking.places(np.ones((0, 3), dtype=np.uint8), []).intervals == ()


def test_the_test_is_mcnemar_s():
    fewer, total = zip(*[(few, many) for many in range(40) for few in range(many // 2 + 1)], strict=True)
    found = ranking.sign_test(np.array(fewer), np.array(total))
    exact = [mcnemar(few, many - few).p_value for few, many in zip(fewer, total, strict=True)]
    assert np.allclose(found, exact, rtol=1e-9)
