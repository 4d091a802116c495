"""Differences, tests and ranks of runs whose outcomes are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentenvs.core.canon import canonical
from agentenvs.core.errors import ConfigError
from agentenvs.harness import statistics
from agentenvs.harness.compare import compare, tables
from tests.harness.compare.made import episode, outcomes, run


def test_two_runs_on_the_same_scenarios(tmp_path: Path) -> None:
    first, second = run(tmp_path / "a", outcomes("1100" * 10)), run(tmp_path / "b", outcomes("1010" * 10), name="other")
    found = compare([first, second])
    whole = found.pairs[0].whole
    assert whole.outcomes == {"both": 10, "first": 10, "second": 10, "neither": 10}
    assert (whole.first, whole.second, whole.difference, whole.p_value) == (0.5, 0.5, 0.0, 1.0)
    assert (whole.test, whole.interval) == ("McNemar, exact", "Bonett and Price, paired")
    assert (whole.low, whole.high) == statistics.paired_rate_interval(10, 10, 40)
    assert not whole.real
    assert "cannot be told apart" in tables.sentence(found, found.pairs[0])
    assert found.pairs[0].reward is None
    assert [row.what for row in found.differs] == ["agent.name"]
    assert [one.rank for one in found.runs] == [None, None]


def test_a_difference_that_is_real(tmp_path: Path) -> None:
    worse, better = run(tmp_path / "a", outcomes("0" * 30)), run(tmp_path / "b", outcomes("1" * 12 + "0" * 18))
    found = compare([worse, better])
    whole = found.pairs[0].whole
    assert whole.real
    assert whole.p_value == statistics.mcnemar(0, 12).p_value
    assert whole.low > 0
    assert tables.sentence(found, found.pairs[0]).startswith("B is better than A by 40.0 points: p < 0.001")
    turned = compare([better, worse]).pairs[0].whole
    assert (turned.difference, turned.low, turned.high) == pytest.approx((-0.4, -whole.high, -whole.low))


def test_the_same_runs_give_the_same_numbers(tmp_path: Path) -> None:
    attempts = [episode(index // 3, index % 4 == 0, number=index) for index in range(90)]
    others = [episode(index // 2, index % 3 == 0, number=index) for index in range(60)]
    runs = [run(tmp_path / "a", attempts), run(tmp_path / "b", others)]
    found = compare(runs, resamples=500)
    assert canonical(found.to_json()) == canonical(compare(runs, resamples=500).to_json())
    whole = found.pairs[0].whole
    assert whole.outcomes is None
    assert whole.test.startswith("sign flips")
    assert whole.interval == "cluster bootstrap, percentile, 500 resamples"
    assert whole.low <= whole.difference <= whole.high


def test_unequal_attempts_count_each_scenario_once(tmp_path: Path) -> None:
    twice = [episode(0, True), episode(1, False), episode(0, False, number=2), episode(1, False, number=3)]
    found = compare([run(tmp_path / "a", twice), run(tmp_path / "b", outcomes("10"))])
    assert [one.rate for one in found.runs] == [0.25, 0.5]
    assert [(one.episodes, one.scenarios) for one in found.runs] == [(4, 2), (2, 2)]
    assert found.runs[0].interval == "Wilson, a cluster as one trial"
    assert found.pairs[0].whole.interval == "adjusted Wald, one cluster more each way"
    assert [row.k for row in found.runs[0].repeats] == [1, 2]
    assert any(line.startswith("pass^k: all of k attempts won") for line in tables.sentences(found))


def test_failures_count_as_lost_and_are_told(tmp_path: Path) -> None:
    failed = [
        *outcomes("1" * 6),
        episode(6, ending="aborted", error="the disk is full", scenario_digest=None),
        episode(7, ending="abandoned", error="KeyError: 'x'"),
    ]
    found = compare([run(tmp_path / "a", failed), run(tmp_path / "b", outcomes("1" * 8))])
    assert found.runs[0].rate == 0.75
    lost = found.runs[0].infrastructure
    assert (lost.environment, lost.service, lost.policy, lost.won_at_most) == (1, 0, 1, 0.875)
    said = "\n".join(tables.sentences(found))
    assert "A: in 1 of 8 episodes the environment or a service failed" in said
    assert "had all been won, the rate would be 87.5 %" in said
    assert "A: the policy itself failed in 1 of 8" in said


def test_groups_are_adjusted_for_being_several(tmp_path: Path) -> None:
    first = [episode(index, False, kind="ab"[index % 2], par=index) for index in range(24)]
    second = [replace(one, success=one.kind == "a", reward=1.0) for one in first]
    pair = compare([run(tmp_path / "a", first), run(tmp_path / "b", second)]).pairs[0]
    assert list(pair.groups) == ["kind", "par"]
    a, b = pair.groups["kind"]
    assert (a.name, a.scenarios, a.difference, a.adjusted) == ("a", 12, 1.0, 2 * a.p_value)
    assert (b.difference, b.adjusted) == (0.0, 1.0)
    assert [row.name for row in pair.groups["par"]] == ["par 1-5", "par 6-10", "par 11-20", "par 21-40"]


def test_families_as_clusters_say_less(tmp_path: Path) -> None:
    first = [episode(index, False, kind=f"k{index % 4}") for index in range(40)]
    second = [replace(one, success=one.kind in ("k0", "k1")) for one in first]
    runs = [run(tmp_path / "a", first), run(tmp_path / "b", second)]
    scenarios, families = compare(runs).pairs[0].whole, compare(runs, cluster="kind").pairs[0].whole
    assert scenarios.real
    assert not families.real
    assert families.clusters == 4
    assert families.high - families.low > scenarios.high - scenarios.low
    with pytest.raises(ConfigError, match="cannot be clustered by 'par'"):
        compare(runs, cluster="par")


def test_rewards_are_compared_where_they_say_more(tmp_path: Path) -> None:
    first = [episode(index, False, reward=index / 40) for index in range(40)]
    second = [episode(index, False, reward=index / 40 + 0.1 + index % 2 / 50) for index in range(40)]
    reward = compare([run(tmp_path / "a", first), run(tmp_path / "b", second)]).pairs[0].reward
    assert reward is not None
    assert (reward.difference, reward.low, reward.high) == pytest.approx((0.11, 0.107, 0.113), abs=1e-3)
    assert reward.interval.startswith("cluster bootstrap")
    assert reward.real
    huge = [episode(index, False, reward=1e300 * (-1.0) ** index) for index in range(40)]
    assert compare([run(tmp_path / "c", first), run(tmp_path / "d", huge)]).pairs[0].reward is None


def test_three_runs_have_ranks_that_the_comparisons_bear(tmp_path: Path) -> None:
    runs = [run(tmp_path / name, outcomes(wins), name=name) for name, wins in (
        ("low", "0" * 40), ("high", "1" * 38 + "00"), ("mid", "1" * 36 + "0011"),
    )]  # fmt: skip
    found = compare(runs)
    assert [one.rank for one in found.runs] == [(3, 3), (1, 2), (1, 2)]
    p_values = [pair.whole.p_value for pair in found.pairs]
    assert [pair.whole.adjusted for pair in found.pairs] == statistics.holm(p_values)
    assert json.loads(json.dumps(found.to_json()))["runs"][0]["rank"] == {"best": 3, "worst": 3}


def test_one_episode_is_compared_and_shows_nothing(tmp_path: Path) -> None:
    found = compare([run(tmp_path / "a", outcomes("0")), run(tmp_path / "b", outcomes("1"))])
    whole = found.pairs[0].whole
    assert (whole.difference, whole.p_value, whole.smallest, whole.correlation) == (1.0, 1.0, 1.0, None)
    assert whole.low < 0 < whole.high


@pytest.mark.parametrize("count", [1, 13])
def test_as_many_runs_as_make_sense(tmp_path: Path, count: int) -> None:
    runs = [run(tmp_path / str(number), outcomes("1")) for number in range(count)]
    with pytest.raises(ConfigError, match=r"run cannot be compared|make 78 pairs"):
        compare(runs)


def test_a_run_does_not_differ_from_itself(tmp_path: Path) -> None:
    one = run(tmp_path / "a", outcomes("1"))
    with pytest.raises(ConfigError, match="are the same run"):
        compare([one, one])
