"""Whatever an environment does, the server stands, the turn has one answer, and the episode has a record."""

from __future__ import annotations

import json

import pytest

from tests.servers.rooms import SECRET
from tests.servers.wire import Play, problem

pytestmark = pytest.mark.anyio

KINDS = {"raise": "RuntimeError", "exit": "EnvironmentLeft", "stop": "EnvironmentLeft", "nan": "ContractError"}


@pytest.mark.parametrize("env", ["room", "slow_room"])
@pytest.mark.parametrize("action", [*KINDS, "junk"])
async def test_a_step_that_fails_aborts_the_episode(serve, caplog, env, action):
    play = await serve(env).play(env, trace=True)
    await play.step(1, "look")
    first = await play.step(2, action)
    detail = problem(first, "environment_failed")["detail"]
    assert detail == f"{KINDS.get(action, 'TypeError')} in turn 2"
    for again in (await play.step(2, action), await play.agent_step(2, action), await play.step(2, action, trace=True)):
        assert again.content == first.content
    problem(await play.step(2, "look"), "turn_conflict")
    problem(await play.step(3, "look"), "episode_ended")
    told = (await play.status()).json()
    assert (told["turn"], told["ending"], told["verdict"]["reward"]) == (2, "aborted", 0.0)
    assert told["last"]["turn"] == 1
    record = await play.record()
    assert (record.footer["ending"], record.footer["failed"]) == ("aborted", True)
    assert "RuntimeError at" in caplog.text or action != "raise"
    assert SECRET not in caplog.text
    follower = await play.restart()
    assert (await follower.step(1, "win")).json()["reward"] == 1.0
    assert (await follower.close()).json()["episodes"] == [play.episode, follower.episode]


async def test_a_world_that_cannot_be_made_or_begun_makes_no_session(wire):
    for fault, where in (("make", "its making"), ("begin", "the beginning"), ("effects", "the beginning")):
        answer = await wire.make(options={"fault": fault})
        assert where in problem(answer, "environment_failed")["detail"]
    assert set(wire.hall.counts.values()) == {0}


async def test_a_group_in_which_one_cannot_begin_is_not_made(wire):
    tasks = [{"split": "few", "index": number} for number in range(3)]
    problem(await wire.make(tasks=tasks, options={"fault": "begin", "at": 2}), "environment_failed")
    assert set(wire.hall.counts.values()) == {0}


async def test_a_reset_that_fails_leaves_an_open_session_with_an_ended_episode(wire):
    play = await wire.play(options={"fault": "begin", "at": 1})
    problem(await play.reset(key="mine"), "environment_failed")
    told = (await play.status()).json()
    assert (told["open"], told["episode"], told["ending"]) == (True, play.episode, "abandoned")
    assert (told["scenario"], told["labels"]) == (f"{SECRET}/0", {"kind": SECRET})
    problem(await play.step(1, "look"), "episode_ended")
    problem(await play.reset(key="mine"), "environment_failed")
    assert (await play.record()).footer["ending"] == "abandoned"
    follower = await play.restart({"split": "few", "index": 2})
    assert (await follower.step(1, "win")).json()["terminated"] is True


@pytest.mark.parametrize("index", [404, 405])
async def test_a_scenario_that_is_not_there_ends_nothing(wire, index):
    play = await wire.play()
    said = problem(await play.reset({"split": "train", "seed": index}), "task_unknown")["detail"]
    assert ("there is no 404" in said) == (index == 404)
    assert (await play.step(1, "look")).status_code == 200


@pytest.mark.parametrize("fault", ["judge", "verdict"])
@pytest.mark.parametrize("how", ["win", "close", "reset"])
async def test_a_world_that_cannot_be_judged_is_aborted(wire, fault, how):
    play = await wire.play(options={"fault": fault})
    if how == "win":
        problem(await play.step(1, "win"), "environment_failed")
        assert (await play.status()).json()["ending"] == "aborted"
    elif how == "reset":
        await play.restart()
    told = (await play.close()).json()
    assert told["episode"] != play.episode or told["ending"] == "aborted"
    assert (await play.record(play.episode)).footer["ending"] == "aborted"
    assert (wire.hall.counts["open"], wire.hall.counts["past"]) == (0, 1)


@pytest.mark.parametrize("env", ["room", "slow_room"])
async def test_a_world_that_cannot_be_closed_holds_no_slot(serve, caplog, env):
    wire = serve(env, max_sessions=1)
    for _ in range(2):
        play = await wire.play(env, options={"fault": "close"}, ttl=5)
        assert (await play.close()).status_code == 200
    play = await wire.play(env, options={"fault": "close"}, ttl=5)
    wire.clock.now += 6
    await wire.hall.sweep(now=True)
    assert wire.hall.counts["open"] == 0
    assert caplog.text.count("failed when it was closed: RuntimeError") == 3
    assert SECRET not in caplog.text


async def test_a_world_without_labels_ends_all_the_same(wire):
    play = await wire.play(options={"fault": "labels"})
    await play.step(1, "win")
    told = (await play.status()).json()
    assert (told["ending"], told["labels"], told["scenario"]) == ("terminated", {}, None)


async def test_a_world_without_a_trace_is_played_without(wire):
    play = await wire.play()
    answer = await play.step(1, "untrace", trace=True)
    assert problem(answer, "environment_failed")["detail"] == "RuntimeError in the trace of this turn"
    assert (await play.step(1, "untrace")).status_code == 200
    assert (await play.step(2, "win")).json()["terminated"] is True
    traced = await wire.play(trace=True)
    problem(await traced.step(1, "untrace"), "environment_failed")
    assert (await traced.status()).json()["ending"] == "aborted"


async def test_a_failure_after_the_end_of_a_world_leaves_a_sound_record(wire):
    play: Play = await wire.play(options={"fault": "verdict"}, player={"privileged": True})
    await play.step(1, "look")
    problem(await play.step(2, "win"), "environment_failed")
    record = await play.record()
    assert (record.turns, record.header["privileged"]) == ((), True)
    assert json.loads((await play.status()).text)["verdict"]["reasons"] == ["the environment failed: ContractError"]
