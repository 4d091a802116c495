from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentenvs.harness.rollout import EpisodeSummary
from agentenvs.harness.summary import summarize
from agentenvs_scoring.stats import wilson

ONE = EpisodeSummary(0, "few", 0, "few-0", "d", "r", "short", 4, "terminated", True, 1.0, 1.0, 6, 1)
LOST = replace(ONE, number=1, kind="long", par=10, ending="truncated", success=False, reward=0.0, episode_return=0.25)


def test_rates_are_over_all_started_episodes() -> None:
    made = summarize(
        [ONE, replace(LOST, turns=14, invalid=0), replace(LOST, number=2, ending="aborted", error="x", turns=0)]
    )
    assert (made["episodes"], made["successes"], made["success_rate"]) == (3, 1, 1 / 3)
    assert made["endings"] == {"aborted": 1, "terminated": 1, "truncated": 1}
    assert (made["errors"], made["stopped"]) == (1, 0)
    assert made["mean_return"] == 1 / 3
    assert made["mean_shaped_return"] == 0.5
    assert made["mean_turns"] == 20 / 3
    assert made["invalid_rate"] == 2 / 20
    assert made["success_low"] < 1 / 3 < made["success_high"]


def test_turns_against_par_are_of_won_episodes_and_of_all() -> None:
    made = summarize([ONE, replace(LOST, turns=15), replace(ONE, par=None, turns=99)])
    assert made["turns_over_par"] == 6 / 4
    assert made["turns_over_par_all"] == 21 / 14
    assert made["mean_turns_won"] == 105 / 2


def test_a_row_a_task_type() -> None:
    made = summarize([ONE, LOST, LOST, replace(ONE, kind=None)])
    assert list(made["kinds"]) == ["long", "short"]
    assert [(row["episodes"], row["successes"]) for row in made["kinds"].values()] == [(2, 0), (1, 1)]


@pytest.mark.parametrize(
    ("usages", "total"),
    [
        ([{"tokens_in": 3}, {"tokens_in": 4}], {"tokens_in": 7}),
        ([{"tokens_in": 3}, {"tokens_in": None}], {"tokens_in": None}),
        ([{}, {"tokens_in": 4}], {"tokens_in": 4}),
    ],
)
def test_usage_is_summed_where_it_is_known(usages: list[dict[str, Any]], total: dict[str, Any]) -> None:
    assert summarize([replace(ONE, usage=usage) for usage in usages])["usage"] == total


def test_metrics_are_averaged_where_they_are_numbers() -> None:
    made = summarize([replace(ONE, metrics={"a": 1, "b": "x"}), replace(ONE, metrics={"a": 2.0}), ONE])
    assert made["metrics"] == {"a": 1.5}


def test_a_run_without_episodes_has_a_summary() -> None:
    made = summarize([])
    assert (made["episodes"], made["success_low"], made["success_high"], made["turns_over_par"]) == (0, 0.0, 1.0, None)


def test_of_several_attempts_the_scenarios_are_what_was_sampled() -> None:
    once = [replace(ONE, number=n, index=n, success=n % 2 == 0) for n in range(20)]
    assert summarize(once)["interval"] == "Wilson, 95 %"
    five = [replace(one, number=5 * one.number + k, attempt=1) for one in once for k in range(5)]
    made, whole = summarize(five), summarize(once)
    assert (made["episodes"], made["scenarios"], made["success_rate"]) == (100, 20, 0.5)
    assert made["interval"] == "cluster bootstrap, percentile, 10,000 resamples, 95 %"
    assert made["success_high"] - made["success_low"] == pytest.approx(0.42, abs=0.05)  # Wilson over attempts: 0.19
    assert made["smallest_difference"] == whole["smallest_difference"]
    assert summarize(five[::-1]) == {**made, "usage": made["usage"]}


def test_of_several_attempts_at_few_scenarios_each_is_one_trial() -> None:
    made = summarize([replace(ONE, number=n, index=n % 2, success=n % 2 == 0) for n in range(20)])
    assert made["interval"] == "Wilson, a cluster as one trial, 95 %"
    assert (made["success_low"], made["success_high"]) == wilson(1, 2)
    kind = made["kinds"]["short"]
    assert (kind["success_low"], kind["scenarios"]) == (made["success_low"], 2)
