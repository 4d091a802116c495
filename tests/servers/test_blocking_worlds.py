"""Worlds that block, live in a process, or are asynchronous: they hold up nobody else, and no turn is half played."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentenvs.core.hosting import Hosted
from agentenvs_servers.hall import Hall
from tests.servers.rooms import GATE
from tests.servers.wire import problem

pytestmark = pytest.mark.anyio


def call(tool: str, **arguments):
    return {"tool": tool, "arguments": arguments}


async def _entered() -> None:
    assert await asyncio.to_thread(GATE.entered.acquire, timeout=10)


async def test_a_step_that_blocks_holds_up_no_other_session(serve):
    wire = serve("slow_room", "room")
    slow, other, quick = await wire.play("slow_room"), await wire.play("slow_room"), await wire.play("room")
    with GATE.shut():
        step = asyncio.create_task(slow.step(1, "wait"))
        await _entered()
        for play in (other, quick):
            assert (await play.step(1, "win")).json()["terminated"] is True
        assert (await wire.make("slow_room")).status_code == 201
        waiting = asyncio.create_task(slow.step(2, "look"))
        await asyncio.sleep(0.01)
        assert not step.done()
        assert not waiting.done()
    assert ((await step).json()["turn"], (await waiting).json()["turn"]) == (1, 2)


async def test_a_turn_whose_client_goes_away_is_played_once_and_can_be_asked_for(serve):
    play = await serve("slow_room").play("slow_room")
    waits = GATE.waits
    with GATE.shut():
        step = asyncio.create_task(play.step(1, "wait"))
        await _entered()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        again = asyncio.create_task(play.step(1, "wait"))
        await asyncio.sleep(0.01)
    answer = (await again).json()
    assert (answer["turn"], answer["observation"]["blocks"]) == (1, [{"type": "text", "text": "You wait."}])
    assert GATE.waits == waits + 1
    assert (await play.step(2, "win")).json()["terminated"] is True
    assert len((await play.record()).turns) == 2


async def test_a_close_waits_for_the_step_that_runs(serve):
    play = await serve("slow_room").play("slow_room")
    with GATE.shut():
        step = asyncio.create_task(play.step(1, "wait"))
        await _entered()
        closing = asyncio.create_task(play.close())
        await asyncio.sleep(0.01)
        late = asyncio.create_task(play.step(2, "look"))
        await asyncio.sleep(0.01)
        assert not closing.done()
    assert (await step).status_code == 200
    assert (await closing).json()["turn"] == 1
    problem(await late, "closed")
    assert len((await play.record()).turns) == 1


async def test_a_reset_waits_for_the_step_that_runs_and_its_agent_learns_nothing(serve):
    play = await serve("slow_room").play("slow_room")
    with GATE.shut():
        step = asyncio.create_task(play.step(1, "wait"))
        await _entered()
        resetting = asyncio.create_task(play.reset())
        await asyncio.sleep(0.01)
        late = asyncio.create_task(play.agent_step(2, "look"))
        await asyncio.sleep(0.01)
    assert (await step).status_code == 200
    follower = (await resetting).json()["episode"]
    assert follower not in str(problem(await late, "closed"))


async def test_a_server_that_stops_does_not_wait_for_ever(serve, monkeypatch, caplog):
    monkeypatch.setattr("agentenvs_servers.hall.CLOSE_SECONDS", 0.05)
    wire = serve("slow_room")
    play, other = await wire.play("slow_room"), await wire.play("slow_room")
    with GATE.shut():
        step = asyncio.create_task(play.step(1, "wait"))
        await _entered()
        await wire.hall.close()
        assert wire.hall.counts["open"] == 1
        assert (await other.record()).footer["ending"] == "aborted"
    assert "1 sessions could not be ended in time" in caplog.text
    await step


def _workers(hall: Hall) -> list[Any]:
    worlds = [session._env for session in hall._open.values()]
    return [world._worker for world in worlds if isinstance(world, Hosted)]


async def test_a_world_in_a_process_is_made_off_the_loop_and_killed_with_its_session(serve):
    wire = serve("slow_tool", "room")
    quick = await wire.play("room")
    making = asyncio.create_task(wire.play("slow_tool"))
    while not making.done():
        assert (await quick.status()).status_code == 200
        await asyncio.sleep(0.01)
    play = await making
    (worker,) = _workers(wire.hall)
    assert worker._process.poll() is None
    await play.step(1, call("peek"))
    await play.close()
    assert worker._process.poll() is not None
    await play.record()


async def test_a_process_that_hangs_crashes_or_raises_costs_a_turn(serve):
    wire = serve("slow_tool", "room")
    play, quick = await wire.play("slow_tool"), await wire.play("room", options={"limit": 0})
    napping = asyncio.create_task(play.step(1, call("nap", milliseconds=60_000)))
    turns = 0
    while not napping.done():
        turns += 1
        assert (await quick.step(turns, "look")).status_code == 200
        await asyncio.sleep(0.005)
    assert turns > 5
    undone = [(await napping).json()]
    undone += [(await play.step(turn, call(tool))).json() for turn, tool in ((2, "crash"), (3, "explode"))]
    assert [answer["info"]["invalid"] for answer in undone] == [True] * 3
    assert undone[-1]["truncated"] is True
    assert (await play.status()).json()["ending"] == "aborted"
    assert (await play.record()).footer["ending"] == "aborted"
    follower = await play.restart()
    assert (await follower.step(1, call("peek"))).json()["info"]["invalid"] is False


async def test_a_world_in_a_process_is_played_to_its_end(serve):
    play = await serve("slow_tool").play("slow_tool", task={"split": "train", "seed": 3}, trace=True)
    turn, answer = 0, {"terminated": False}
    while not answer["terminated"]:
        turn += 1
        answer = (await play.step(turn, call("add", count=1))).json()
    assert answer["reward"] == 1.0
    traces = (await play.wire.get(f"{play.path}/trace")).json()["traces"]
    assert [trace["turn"] for trace in traces] == list(range(1, turn + 1))
    assert (await play.record()).footer["verdict"]["success"] is True


async def test_an_asynchronous_world_is_played_and_its_effects_are_recorded(serve):
    play = await serve("clerk").play("clerk")
    said = (await play.step(1, {"message": "What is the order number?"})).json()["observation"]["blocks"][0]["text"]
    order = said.split()[-1].rstrip(".")
    await play.step(2, call("refund", order=order))
    assert (await play.step(3, {"end": "done"})).json()["reward"] == 1.0
    record = await play.record()
    assert [len(turn["effects"]) for turn in record.turns] == [1, 0, 0]


async def test_an_asynchronous_turn_whose_client_goes_away_is_played(serve):
    play = await serve("clerk").play("clerk")
    step = asyncio.create_task(play.step(1, {"message": "What is the order number?"}))
    for _ in range(4):
        await asyncio.sleep(0)
    step.cancel()
    answer = await play.step(1, {"message": "What is the order number?"})
    assert answer.json()["observation"]["blocks"][0]["text"].startswith("Customer: It is A-")
    assert (await play.status()).json()["turn"] == 1


async def test_a_large_world_is_served(serve):
    wire = serve("ledger")
    plays = [await wire.play("ledger") for _ in range(3)]
    for turn in range(1, 61):
        for play in plays:
            entry = (await play.step(2 * turn - 1, call("next_invoice"))).json()["observation"]["blocks"][0]["data"]
            assert (await play.step(2 * turn, call("post", **entry))).json()["info"]["invalid"] is False
    for play in plays:
        assert (await play.step(121, call("close_books"))).json()["reward"] == 1.0
        await play.record()
