"""Replay names the first difference: turn, field, both values. Rescore computes the verdict again from facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import RecordError
from agentenvs.core.record import Record, Recorded, parse_records
from agentenvs.core.replay import env_for, replay, rescore
from agentenvs.core.task import TaskRef
from tests.envs.fixtures import register_fixtures

register_fixtures()

ACTIONS = [{"message": "Nice weather."}, {"message": "Which order?"}, "junk", {"end": ""}]


def played(actions: list[Any] = ACTIONS) -> Record:
    recorded = Recorded(registry.make("clerk"))
    recorded.reset(TaskRef("train", 1))
    for action in actions:
        recorded.step(action)
    return parse_records(recorded.to_bytes())[0]


def difference(record: Record) -> tuple[int, str, Any, Any]:
    found = replay(record).divergence
    assert found is not None
    return found.turn, found.field, found.recorded, found.replayed


def test_an_untouched_record_replays():
    report = replay(played())
    assert (report.equal, report.turns) == (True, 4)


def test_effects_are_fed_back_and_not_made_again(monkeypatch):
    record = played()
    monkeypatch.setattr("tests.envs.fixtures.clerk.Clerk._answer", None)
    assert replay(record).equal


@pytest.mark.parametrize(
    ("field", "forged"),
    [
        ("observation", "0" * 64),
        ("state", "elsewhere"),
        ("reward", 1.0),
        ("valid", False),
        ("error", "none"),
    ],
)
def test_a_difference_in_a_turn_is_named_with_both_values(field, forged):
    record = played()
    honest = record.turns[1][field]
    record.turns[1][field] = forged
    assert difference(record) == (2, field, forged, honest)


def test_another_action_is_found_where_it_shows():
    record = played()
    record.turns[1]["action"] = {"message": "Nothing about it."}
    assert difference(record)[:2] == (2, "observation")


def test_another_effect_changes_what_is_seen():
    record = played()
    record.turns[0]["effects"][0]["value"] = "What a lovely day!"
    assert difference(record)[:2] == (1, "observation")


def test_an_effect_too_few_or_of_another_kind_is_named():
    record = played()
    record.turns[0]["effects"].clear()
    assert difference(record) == (1, "effects", "as recorded", "effect 'customer' was not recorded here")
    record = played()
    record.turns[0]["effects"][0]["kind"] = "weather"
    assert difference(record)[:2] == (1, "effects")


def test_an_effect_too_many_is_named():
    record = played()
    extra = {"kind": "gift", "value": 1}
    record.turns[2]["effects"].append(extra)
    assert difference(record) == (3, "effects", [extra], [])


def test_effects_that_a_world_cannot_digest_are_a_difference_and_no_crash(monkeypatch):
    record = played()
    monkeypatch.setattr("tests.envs.fixtures.clerk.Clerk._hear", None)
    assert difference(record) == (1, "failure", None, "TypeError")


@pytest.mark.parametrize(
    ("field", "forged"),
    [
        ("observation", "x"),
        ("state", "x"),
        ("scenario", "x"),
        ("effects", [{"kind": "a"}]),
        ("spec", "x"),
        ("since", "9.9"),
    ],
)
def test_a_difference_in_the_opening_is_turn_0(field, forged):
    record = played()
    record.header[field] = forged if field != "effects" else [{"kind": "a", "value": 1}]
    assert difference(record)[:2] == (0, field)


def test_a_difference_in_the_footer_comes_last():
    record = played()
    assert record.footer is not None
    record.footer["verdict"]["reward"] = 1.0
    assert difference(record) == (5, "verdict.reward", 1.0, 0.0)
    record = played()
    assert record.footer is not None
    record.footer["turns"] = 3
    assert difference(record) == (5, "turns", 3, 4)


def test_turns_after_the_end_are_named():
    record = played()
    more = {**record.turns[0], "turn": 5}
    found = replay(replace(record, turns=(*record.turns, more))).divergence
    assert found is not None
    assert str(found) == "turn 5, ending: recorded None, replayed 'terminated'"


def test_a_divergence_reads_well():
    record = played()
    record.turns[1]["state"] = "here"
    assert str(replay(record).divergence) == "turn 2, state: recorded 'here', replayed '2:2:'"


def test_a_record_of_another_release_says_which_version_replays_it():
    record = played()
    record.header.update(release="9", since="4.5.6")
    with pytest.raises(RecordError, match=r"release 9, here is 0[\s\S]*version 4\.5\.6 of its package"):
        replay(record)


def test_an_environment_that_is_not_replayable_says_so():
    env = registry.make("clerk")
    env.spec = replace(env.spec, capabilities=replace(env.spec.capabilities, replayable=False))
    with pytest.raises(RecordError, match="cannot be replayed"):
        replay(played(), env)


def test_a_record_does_not_say_what_is_read_on_this_machine():
    record = played()
    record.header.update(env="agentenvs/Household-v0", release="0", options={"data": "/etc"})
    with pytest.raises(RecordError, match="belongs to the machine"):
        env_for(record)


def test_rescoring_gives_the_recorded_verdict():
    report = rescore(played())
    assert report.equal
    assert report.rescored.facts == {"refunded": [], "patience": 2}


def test_rescoring_finds_a_verdict_its_facts_do_not_bear():
    record = played()
    assert record.footer is not None
    record.footer["verdict"].update(reward=1.0, success=True)
    report = rescore(record)
    assert not report.equal
    assert (report.recorded.reward, report.rescored.reward) == (1.0, 0.0)


def test_rescoring_refuses_what_it_cannot_judge():
    with pytest.raises(RecordError, match="the record has no end"):
        rescore(played(ACTIONS[:2]))
    record = played()
    record.header["scenario"] = "another"
    with pytest.raises(RecordError, match="is another one here"):
        rescore(record)
    record = played()
    assert record.footer is not None
    record.footer["verdict"]["facts"] = {"patience": 1}
    with pytest.raises(RecordError, match="cannot be judged"):
        rescore(record)


def test_an_episode_whose_environment_failed_earned_nothing():
    recorded = Recorded(registry.make("clerk"))
    recorded.reset(TaskRef("train", 1))
    recorded.abort("it broke", TaskRef("train", 1))
    record = parse_records(recorded.to_bytes())[0]
    assert rescore(record).equal
    assert replay(record).equal


def test_rescoring_leaves_no_worker_behind(monkeypatch):
    recorded = Recorded(registry.make("slow_tool"))
    recorded.reset(TaskRef("train", 1))
    recorded.finish("abandoned")
    recorded.env.close()
    closed: list[Any] = []
    monkeypatch.setattr(type(recorded.env), "close", lambda self: closed.append(self._worker) or self._worker.close())
    assert rescore(parse_records(recorded.to_bytes())[0]).equal
    assert len(closed) == 1
