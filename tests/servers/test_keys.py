"""A create or reset that is asked again is done once."""

from __future__ import annotations

import asyncio

import pytest

from agentenvs_servers.problems import ProblemError
from tests.servers.wire import Play, problem

pytestmark = pytest.mark.anyio

FORMS = {
    "one": {"task": {"split": "few", "index": 1}},
    "group": {"task": {"split": "train", "seed": 9}, "count": 3},
    "list": {"tasks": [{"split": "few", "index": 2}, {"split": "train", "seed": 9}, {}]},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_a_create_that_is_asked_again_is_answered_again(wire, form):
    answers = [await wire.make(key="mine", **form) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert len({answer.content for answer in answers}) == 1
    made = answers[0].json()
    sessions = made.get("sessions", [made])
    assert wire.hall.counts["open"] == len(sessions) == len({item["session"] for item in sessions})
    assert len({item["agent_key"] for item in sessions}) == len(sessions)
    problem(await wire.make(key="mine", **form, trace=True), "key_conflict")


async def test_creates_at_the_same_time_with_one_key_make_one_session(serve):
    wire = serve("slow_room", "room")
    for env in ("room", "slow_room"):
        answers = await asyncio.gather(*(wire.make(env, key=env) for _ in range(20)))
        assert len({answer.content for answer in answers}) == 1
    assert wire.hall.counts["open"] == 2


async def test_what_is_left_out_is_the_same_as_its_default(wire):
    first = await wire.make(key="mine")
    assert (await wire.make(key="mine", task=None, options={}, trace=False)).content == first.content
    problem(await wire.make(key="mine", options={"limit": 5}), "key_conflict")


async def test_a_create_that_failed_is_not_remembered(wire):
    problem(await wire.make(key="mine", task={"split": "few", "index": 99}), "task_unknown")
    problem(await wire.make(key="mine", tasks=[{}, {"split": "train", "index": 404}]), "task_unknown")
    assert (await wire.make(key="mine")).status_code == 201
    assert {name: wire.hall.counts[name] for name in ("open", "past", "creates", "agents", "kept_bytes")} == {
        "open": 1,
        "past": 0,
        "creates": 1,
        "agents": 1,
        "kept_bytes": 0,
    }


async def test_whoever_waits_for_a_create_that_fails_is_told_the_same(serve):
    wire = serve("slow_room")
    answers = await asyncio.gather(*(wire.make("slow_room", key="mine", options={"fault": "begin"}) for _ in range(5)))
    assert len({problem(answer, "environment_failed")["detail"] for answer in answers}) == 1
    assert wire.hall.counts["creates"] == 0


async def test_a_create_comes_to_its_end_without_its_client(serve):
    wire = serve("slow_room")
    asking = asyncio.create_task(wire.make("slow_room", key="mine"))
    await asyncio.sleep(0)
    asking.cancel()
    answer = await wire.make("slow_room", key="mine")
    assert answer.status_code == 201
    assert wire.hall.counts["open"] == 1


async def test_a_create_is_answered_again_after_its_session_was_closed(wire):
    first = await wire.make(key="mine")
    await Play(wire, first.json()).close()
    assert (await wire.make(key="mine")).content == first.content
    assert wire.hall.counts["open"] == 0


async def test_keys_belong_to_a_token(serve):
    tokens = ("first-token-of-two", "second-token-of-two")
    wire = serve(tokens=tokens)
    made = [await wire.post("/v1/sessions", {"env": "room", "key": "mine"}, token) for token in tokens]
    assert made[0].json()["session"] != made[1].json()["session"]


async def test_a_reset_that_is_asked_again_is_answered_again(wire):
    play = await wire.play()
    first = await play.reset(key="mine")
    follower = Play(wire, {**play.form, **first.json()})
    await follower.step(1, "look")
    again = await play.reset(key="mine")
    assert again.content == first.content
    assert (await follower.status()).json()["turn"] == 1
    assert (await follower.agent_step(2, "look")).status_code == 200
    problem(await play.reset(key="mine", task="same"), "key_conflict")


async def test_resets_at_the_same_time_with_one_key_begin_one_episode(wire):
    play = await wire.play(task={"split": "train", "seed": 0})
    answers = await asyncio.gather(*(play.reset(key="mine") for _ in range(20)))
    assert len({answer.content for answer in answers}) == 1
    assert len((await play.status()).json()["episodes"]) == 1


async def test_a_late_duplicate_of_an_older_reset_is_refused(wire):
    play = await wire.play()
    second = Play(wire, {**play.form, **(await play.reset(key="first")).json()})
    third = Play(wire, {**play.form, **(await second.reset(key="second")).json()})
    assert problem(await play.reset(key="first"), "episode_conflict")["detail"] == f"it plays {third.episode}"
    assert (await third.status()).json()["episode"] == third.episode


REFUSED = {
    "task_unknown": {"task": {"split": "few", "index": 3}},
    "sealed_rule": {"task": {"split": "vault", "index": 0}},
    "invalid_request": {"task": "other"},
    "episode_conflict": {"ends": "ep-another"},
}


@pytest.mark.parametrize("code", REFUSED)
async def test_a_refused_reset_leaves_the_episode_as_it_is(wire, code):
    play = await wire.play()
    await play.step(1, "look")
    before = await play.status()
    problem(await play.reset(key="mine", **REFUSED[code]), code)
    assert (await play.status()).content == before.content
    assert (await play.agent_step(2, "look")).status_code == 200
    assert (await play.reset(key="mine")).status_code == 200


async def test_a_reset_goes_where_it_is_told(wire):
    play = await wire.play(task={"split": "few", "index": 1})
    seen = []
    for task in ("same", None, {"split": "train", "seed": -(2**70)}, None, {"split": "few"}):
        play = await play.restart(task)
        seen.append((play.form["task"]["ref"]["split"], play.form["task"]["ref"]["index"]))
    assert seen == [("few", 1), ("few", 2), ("train", -(2**70)), ("train", 1 - 2**70), ("few", 0)]
    problem(await play.reset({"split": "few", "seed": 0}), "task_unknown")
    problem(await play.reset({"split": "few", "seed": 0, "index": 0}), "invalid_request")


async def test_the_keys_of_old_resets_are_forgotten_and_their_resets_still_refused(wire, monkeypatch):
    monkeypatch.setattr("agentenvs_servers.sessions.KEPT_KEYS", 2)
    first = play = await wire.play(task={"split": "train", "seed": 0})
    for number in range(4):
        play = Play(wire, {**play.form, **(await play.reset(key=f"key {number}")).json()})
    problem(await first.reset(key="key 0"), "episode_conflict")


async def test_a_problem_is_an_error_of_the_server_alone():
    with pytest.raises(KeyError):
        ProblemError("no such code")
