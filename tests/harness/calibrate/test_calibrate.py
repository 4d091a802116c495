"""Calibration of a small world: rows, cards, what moves, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import ConfigError, DataError
from agentenvs.harness.calibrate import band, measure, moved, rows, written
from agentenvs.harness.calibrate.card import Kept, keep, splits_of
from agentenvs.harness.calibrate.plan import Row
from agentenvs.harness.calibrate.results import saturated
from agentenvs.harness.report import read_run
from agentenvs.harness.run import RunConfig, evaluate
from agentenvs_scoring.cards import Measure, parse
from tests.harness import playroom

SPEC = playroom.Stairs.spec
CLIMBER = "tests.harness.playroom:Climber"
HARD = {"admissible": True}


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return keep(SPEC, splits_of(SPEC, None), tmp_path / "stairs.card.toml")


def _rows(*players: str, options: dict[str, object] | None = None) -> list[Row]:
    return [Row(player, "few", 6, options or {}) for player in players]


def test_every_player_on_every_split_where_no_card_says_what() -> None:
    planned = rows(SPEC, splits_of(SPEC, None), None)
    assert {row.player for row in planned} == {"oracle", "gone", "random", "noop"}
    assert {(row.split, row.episodes) for row in planned} == {("train", 200), ("few", 6)}
    assert [row.name for row in rows(SPEC, splits_of(SPEC, None), None, players=["noop"], only=["few"])] == [
        "noop on few"
    ]
    assert rows(SPEC, splits_of(SPEC, None), None, players=["noop"], episodes=2)[0].episodes == 2
    with pytest.raises(ConfigError, match="nothing to measure"):
        rows(SPEC, splits_of(SPEC, None), None, only=["other"])


def test_a_card_says_what_is_measured(kept: Kept) -> None:
    listed = Measure((CLIMBER,), {"few": 99}, {"fault": ["", "act"], "at": 1})
    data = Measure((CLIMBER,), {"there": 1}, data=True)
    card = replace(kept.updated([], [], whole=True), measure=(listed, data))
    assert [(row.episodes, row.options) for row in rows(SPEC, kept.splits, card)] == [
        (6, {"fault": "", "at": 1}),
        (6, {"fault": "act", "at": 1}),
    ]
    with pytest.raises(ConfigError, match="measures the split 'there'"):
        rows(SPEC, kept.splits, card, data=True)


def test_a_card_is_written_read_and_holds(kept: Kept) -> None:
    found = measure("stairs", _rows("oracle", CLIMBER, "random", "noop"))
    kept.write(kept.updated(found, [], whole=True))
    again = keep(SPEC, kept.splits, kept.path)
    assert again.card is not None
    assert [(row.player, row.won) for row in again.card.bands][:2] == [("oracle", 6), (CLIMBER, 6)]
    assert moved(again.card, found, SPEC) == []
    assert [(row.split, row.best) for row in again.card.saturated] == [("few", CLIMBER)]
    first = kept.path.read_bytes()
    again.write(again.updated(found, [], whole=True))
    assert kept.path.read_bytes() == first


def test_parts_and_processes_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [band(one, SPEC) for one in measure("stairs", _rows(CLIMBER, "noop"))]
    monkeypatch.setattr("agentenvs.harness.calibrate.measuring.PART", 4)
    assert [band(one, SPEC) for one in measure("stairs", _rows(CLIMBER, "noop"))] == whole
    planned = [Row("expert", "builtin", 12), Row("noop", "builtin", 6)]
    spec = registry.spec("household")
    here, there = (measure("household", planned, jobs=jobs) for jobs in (1, 2))
    assert [band(one, spec) for one in here] == [band(one, spec) for one in there]


def test_what_has_moved_is_named(kept: Kept) -> None:
    found = measure("stairs", _rows(CLIMBER))
    kept.write(kept.updated(found, [], whole=True))
    card = keep(SPEC, kept.splits, kept.path).card
    assert card is not None
    lost = replace(found[0], episodes=[replace(one, success=False) for one in found[0].episodes])
    (fault,) = moved(card, [lost], SPEC)
    assert fault.what.startswith(
        "6 of 6 won in 2 steps, now 0 of 6 won in 2 steps: tests.harness.playroom:Climber on few"
    )
    slower = replace(found[0], episodes=[replace(one, reward=0.5) for one in found[0].episodes])
    assert moved(card, [slower], SPEC)[0].what.endswith(": outcomes have moved")
    assert moved(card, measure("stairs", _rows("noop")), SPEC)[0].what == "is not on the card"
    assert "is of release 1" in moved(card, [], replace(SPEC, release="2"))[0].what
    few = replace(found[0], episodes=found[0].episodes[:3])
    assert "too few to tell" in moved(card, [few], SPEC)[0].what
    loose = replace(SPEC, capabilities=replace(SPEC.capabilities, deterministic=False))
    assert moved(card, [slower], loose) == []
    assert moved(card, [lost], loose)


def test_moved_bands_need_a_new_release(kept: Kept) -> None:
    found = measure("stairs", _rows(CLIMBER))
    kept.write(kept.updated(found, [], whole=True))
    again = keep(SPEC, kept.splits, kept.path)
    lost = [replace(found[0], episodes=[replace(one, success=False) for one in found[0].episodes])]
    with pytest.raises(ConfigError, match=r"1 bands of tests/Stairs-v0 release 1 have moved") as caught:
        again.refuse_moved(lost)
    assert "give the spec a new release" in caught.value.fix
    replace(again, spec=replace(SPEC, release="2")).refuse_moved(lost)
    again.refuse_moved([*found, *measure("stairs", _rows("noop"))])


def test_rows_that_were_not_measured_this_time(kept: Kept) -> None:
    kept.write(kept.updated(measure("stairs", _rows(CLIMBER, "noop")), [], whole=True))
    again = keep(SPEC, kept.splits, kept.path)
    part = measure("stairs", _rows("noop"))
    assert len(again.updated(part, [], whole=False).bands) == 2
    assert len(again.updated(part, [], whole=True).bands) == 1
    without = replace(again, splits={"train": again.splits["train"]})
    assert len(without.updated([], [], whole=True).bands) == 2


def test_failures_are_lost(kept: Kept) -> None:
    found = measure("stairs", [Row(CLIMBER, "few", 6, {"fault": "act", "at": 1})])
    assert band(found[0], SPEC).won == 5
    assert [one.ending for one in found[0].episodes].count("aborted") == 1


def test_what_a_player_asks_for_is_no_other_world() -> None:
    found = measure("stairs", _rows("random", CLIMBER))
    assert found[0].wanted == ("admissible",)
    one, other = (band(row, SPEC) for row in found)
    assert one.options == HARD
    assert [row.best for row in saturated([(one, ("admissible",)), (other, ())])] == [CLIMBER]


def test_a_model_stands_on_the_card_once(kept: Kept, tmp_path: Path) -> None:
    evaluate(RunConfig("stairs", CLIMBER, out=tmp_path / "run"))
    run = read_run(tmp_path / "run")
    kept.write(kept.updated([], [run], whole=False))
    again = keep(SPEC, kept.splits, kept.path)
    assert again.card is not None
    (row,) = again.card.models
    assert (row.name, row.won, row.run, row.table) == (
        CLIMBER, 6, run.manifest.run_id, run.manifest.episode_table_digest,
    )  # fmt: skip
    assert len(again.updated([], [run], whole=False).models) == 1


def test_runs_that_cannot_stand_on_a_card(kept: Kept, tmp_path: Path) -> None:
    evaluate(RunConfig("stairs", "oracle", out=tmp_path / "oracle"))
    evaluate(RunConfig("escalator", CLIMBER, out=tmp_path / "other"))
    evaluate(RunConfig("stairs", CLIMBER, options={"fault": "scenario"}, out=tmp_path / "failed"))
    for name, why in (
        ("oracle", "was shown the scenario"),
        ("other", "is of tests/Escalator-v0"),
        ("failed", "not every"),
    ):
        with pytest.raises(DataError, match=why):
            kept.updated([], [read_run(tmp_path / name)], whole=False)
    run = read_run(tmp_path / "failed")
    broken = replace(run, manifest=run.manifest.model_copy(update={"complete": False}))
    with pytest.raises(DataError, match="did not come to an end"):
        kept.updated([], [broken], whole=False)


def test_hostile_names_come_back_as_they_were(kept: Kept, tmp_path: Path) -> None:
    evaluate(RunConfig("stairs", CLIMBER, out=tmp_path / "run"))
    name = 'a"b\\c\n[[bands]]\x7f\x00\u202e\U0001f600'
    row = replace(
        kept.updated([], [read_run(tmp_path / "run")], whole=False).models[0], name=name, options={name: [name]}
    )
    text = written("env = 'x'\nrelease = \"0\"\n", [], [row], [], '1"2')
    card = parse(text, "x")
    assert (card.models[0].name, card.models[0].options, card.release) == (name, {name: [name]}, '1"2')


def test_a_card_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    for text, why in (("env = 'x'\nrelease = '0'\n", "is the card of x"), ("nothing", "is no score card")):
        path.write_text(text)
        with pytest.raises(DataError, match=why):
            keep(SPEC, {}, path)
