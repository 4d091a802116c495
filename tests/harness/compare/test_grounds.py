"""What is refused, why, and what can be done; and what differs in manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentenvs.core.errors import ConfigError, DataError
from agentenvs.harness import manifest as manifests
from agentenvs.harness.compare import compare, reasons
from agentenvs.harness.compare.grounds import manifest_rows
from tests.harness.compare.made import episode, outcomes, run


@pytest.mark.parametrize(
    ("entry", "why", "fix"),
    [
        ({"env_id": "tests/Dice-v0"}, "two environments: tests/Coin-v0 and tests/Dice-v0", "compare runs of one"),
        ({"env_version": "2"}, "two releases of tests/Coin-v0: 1 and 2", "both are of one release"),
        ({"spec_digest": "f" * 64}, "spec 000000000000 and ffffffffffff", "both are of one version"),
        ({"scorer_hash": "f" * 64}, "judged by different code", "agentenvs rescore RUN"),
        ({"split": "test"}, "two splits: dev and test", "compare runs of one split"),
        ({"options": '{"admissible":false,"limit":5}'}, "the option limit was 9 and 5", "--across limit"),
        ({"budgets": [manifests.Budget(name="steps", amount=5)]}, "other budgets", "one budget"),
    ],
)
def test_runs_that_cannot_be_compared(tmp_path: Path, entry: dict[str, Any], why: str, fix: str) -> None:
    runs = [run(tmp_path / "a", outcomes("10")), run(tmp_path / "b", outcomes("10"), entry=entry)]
    with pytest.raises(DataError, match="these runs cannot be compared") as caught:
        compare(runs)
    assert why in caught.value.why
    assert fix in caught.value.fix
    assert reasons(runs)


@pytest.mark.parametrize(
    "entry",
    [
        {"options": '{"admissible":true,"limit":9}'},
        {"scorer_hash": None},
        {"generator_hash": "f" * 64},
        {"tasks": 7, "trials": 3},
    ],
    ids=["what is shown", "a server's scoring is not known", "the scenarios are the same all the same", "counts"],
)
def test_what_does_not_matter_stands_among_the_differences(tmp_path: Path, entry: dict[str, Any]) -> None:
    runs = [run(tmp_path / "a", outcomes("10")), run(tmp_path / "b", outcomes("10"), entry=entry)]
    assert reasons(runs) == []
    assert {row.what.split(".")[0] for row in compare(runs).differs} == {"environment"}


def test_an_option_may_be_what_is_compared(tmp_path: Path) -> None:
    entry = {"options": '{"admissible":false,"limit":5}', "budgets": [manifests.Budget(name="steps", amount=5)]}
    runs = [run(tmp_path / "a", outcomes("10")), run(tmp_path / "b", outcomes("10"), entry=entry)]
    found = compare(runs, across=["limit"])
    assert found.across == ("limit",)
    assert [row.what for row in found.differs] == ["environment.budgets.steps", "environment.options.limit"]


def test_what_no_world_has_cannot_be_what_is_compared(tmp_path: Path) -> None:
    runs = [run(tmp_path / name, outcomes("10")) for name in "ab"]
    with pytest.raises(ConfigError, match=r"(?s)has the option 'speed'.*name one of: .*limit"):
        compare(runs, across=["speed"])


def test_other_scenarios_under_the_same_address(tmp_path: Path) -> None:
    runs = [run(tmp_path / "a", outcomes("10")), run(tmp_path / "b", outcomes("10", scenario_digest="e" * 64))]
    with pytest.raises(DataError, match="dev/0 is not the same scenario in"):
        compare(runs, only_common=True)


def test_only_what_is_common_where_that_is_asked_for(tmp_path: Path) -> None:
    short = run(tmp_path / "a", outcomes("101"), complete=False)
    runs = [short, run(tmp_path / "b", outcomes("10101"))]
    with pytest.raises(DataError, match="did not play the same scenarios") as caught:
        compare(runs)
    assert f"{tmp_path / 'a'} did not come to an end" in caught.value.fix
    assert "--only-common" in caught.value.fix
    found = compare(runs, only_common=True)
    assert (found.scenarios, [one.left_out for one in found.runs]) == (3, [0, 2])


def test_nothing_in_common(tmp_path: Path) -> None:
    runs = [run(tmp_path / "a", outcomes("1")), run(tmp_path / "b", [episode(5)]), run(tmp_path / "c", [])]
    for pair in (runs[:2], runs[1:]):
        with pytest.raises(DataError, match="no scenario in common"):
            compare(pair, only_common=True)
        with pytest.raises(DataError, match="did not play the same"):
            compare(pair)


def test_two_empty_runs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no scenario in common"):
        compare([run(tmp_path / "a", []), run(tmp_path / "b", [])])


def test_manifests_are_told_apart_in_plain_names(tmp_path: Path) -> None:
    model = manifests.ModelEntry(
        provider="p", id="m", revision=None, sampling="{}", reasoning_effort=None, seed=None, base_url_class="loopback"
    )
    runs = [run(tmp_path / "a", outcomes("1"), model=model), run(tmp_path / "b", outcomes("1"))]
    rows = {row.what: row.values for row in manifest_rows(runs)}
    assert rows["model.id"] == ("m", None)
    assert rows["model"] == (None, None) if "model" in rows else True
    assert not {"run_id", "created", "episode_table_digest"} & rows.keys()
