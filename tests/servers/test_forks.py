"""A fork is the session at its turn, under names of its own; made once, kept as its original is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest

from agentenvs.core import registry
from agentenvs.core.record import Recorded
from agentenvs.core.spec import Capabilities
from agentenvs.core.task import TaskRef
from tests.servers import rooms
from tests.servers.house import moved
from tests.servers.line import opened
from tests.servers.rooms import GATE
from tests.servers.wire import Play, key, problem

pytestmark = pytest.mark.anyio

DEV = {"split": "dev", "index": 3}
WORDS = ("look", "inventory", "go to fridge 1", "nonsense", "look")


class Fleeting(rooms.Room):
    """A room without snapshots."""

    spec = replace(
        rooms.SPEC,
        id="tests/Fleeting-v0",
        slug="fleeting",
        entry_point=f"{__name__}:Fleeting",
        capabilities=Capabilities(snapshot=False),
    )


async def fork(play: Play, **body: Any) -> httpx.Response:
    return await play.wire.post(f"{play.path}/fork", {"key": key(), **body})


async def forks(play: Play, count: int = 1) -> list[Play]:
    answer = await fork(play, count=count)
    assert answer.status_code == 201, answer.text
    return [Play(play.wire, form) for form in answer.json()["sessions"]]


def in_process(env: str, ref: TaskRef, at: int, actions: list[str]) -> Recorded:
    """Play a fork in process, with its record."""
    recorded = Recorded(registry.make(env))
    recorded.reset(ref)
    for action in actions[:at]:
        recorded.step(action)
    twin = recorded.fork()
    for action in actions[at:]:
        twin.step(action)
    twin.finish("abandoned")
    return twin


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("at", [0, 2])
async def test_a_fork_goes_on_as_the_fork_in_process(house, serve, kept, at):
    wire = house.start() if kept else serve("household")
    play = await wire.play("household", task=DEV, trace=True)
    for turn in range(at):
        await play.step(turn + 1, WORDS[turn])
    twins = await forks(play, 2)
    for play_on in (play, *twins):
        for turn in range(at, 4):
            assert (await play_on.step(turn + 1, WORDS[turn])).status_code == 200
        await play_on.close()
    here = in_process("household", TaskRef("dev", 3), at, list(WORDS[:4]))
    for twin in twins:
        record = await twin.record()
        assert (await wire.http.get(f"{twin.path}/record")).content == here.to_bytes()
        assert record.header["forked_from"]["turn"] == at
    assert (await play.record()).header["forked_from"] is None


async def test_a_fork_shows_what_its_original_showed(wire):
    play = await wire.play(trace=True, ttl=77)
    seen = (await play.step(1, "look")).json()
    answer = (await fork(play, count=2)).json()["sessions"]
    for form in answer:
        assert set(form) == {"episode", "agent_key", "task", "turn", "observation", "session", "env", "ttl"}
        assert (form["turn"], form["observation"], form["ttl"]["idle"]) == (1, seen["observation"], 77)
        assert form["task"] == play.form["task"]
    names = [each[name] for each in (*answer, play.form) for name in ("session", "episode", "agent_key")]
    assert len(set(names)) == 9
    twin = Play(wire, answer[0])
    status = (await twin.status()).json()
    assert (status["turn"], status["last"]) == (1, {**seen, "episode": twin.episode})
    assert (await twin.agent()).json()["last"] == {**seen, "episode": twin.episode}
    traces = (await wire.get(f"{twin.path}/trace")).json()["traces"]
    assert traces == (await wire.get(f"{play.path}/trace")).json()["traces"]


async def test_the_last_turn_of_the_original_is_that_of_the_fork(wire):
    play = await wire.play()
    await play.step(1, "look")
    second = (await play.step(2, "look")).json()
    (twin,) = await forks(play)
    assert (await twin.step(2, "look")).json() == {**second, "episode": twin.episode}
    problem(await twin.step(2, "win"), "turn_conflict")
    problem(await twin.step(1, "look"), "turn_past")
    problem(await twin.step(4, "look"), "turn_ahead")
    twin_of_it, original = play.episode, twin.episode
    for one, name in ((play, original), (twin, twin_of_it)):
        body = {"episode": name, "turn": 3, "action": "look"}
        problem(await one.wire.post(f"{one.path}/step", body), "episode_conflict")


async def test_forks_are_independent(wire):
    play = await wire.play()
    await play.step(1, "look")
    one, two = await forks(play, 2)
    assert (await one.step(2, "win")).json()["terminated"] is True
    assert (await two.step(2, "look")).json()["terminated"] is False
    assert (await play.step(2, "nonsense")).json()["info"]["invalid"] is True
    await play.close()
    assert (await two.step(3, "win")).json()["terminated"] is True
    assert (await one.restart()).episode != one.episode  # it can be reset like any session
    (deep,) = await forks((await forks(await wire.play()))[0])
    assert (await deep.step(1, "win")).json()["terminated"] is True


async def test_a_fork_is_made_once(serve):
    wire = serve(max_sessions=3)
    play = await wire.play()
    body = {"key": "mine", "count": 2}
    answers = await asyncio.gather(*(wire.post(f"{play.path}/fork", body) for _ in range(5)))
    assert {answer.content for answer in answers} == {answers[0].content}
    await play.step(1, "look")
    assert (await wire.post(f"{play.path}/fork", body)).content == answers[0].content
    problem(await wire.post(f"{play.path}/fork", {"key": "mine"}), "key_conflict")
    problem(await fork(play), "at_capacity")
    await play.close()
    assert (await wire.post(f"{play.path}/fork", body)).content == answers[0].content
    problem(await fork(play), "closed")


async def test_the_same_key_for_two_sessions_is_two_keys(wire):
    one, two = await wire.play(), await wire.play()
    made = [(await fork(play, key="mine")).json()["sessions"][0]["session"] for play in (one, two)]
    assert made[0] != made[1]
    assert (await wire.make(key="mine")).status_code == 201


async def test_a_fork_of_a_session_in_the_journal_outlives_server_and_original(house):
    play = await house.start().play("household", task=DEV)
    for turn in (1, 2):
        await play.step(turn, WORDS[turn - 1])
    body = {"key": "mine", "count": 2}
    made = await play.wire.post(f"{play.path}/fork", body)
    one, two = (Play(play.wire, form) for form in made.json()["sessions"])
    await one.step(3, WORDS[2])
    await play.close()
    second = house.start()
    assert (await second.post(f"{play.path}/fork", body)).content == made.content
    problem(await second.post(f"{play.path}/fork", {"key": "mine"}), "key_conflict")
    for twin, turn in ((moved(one, second), 4), (moved(two, second), 3)):
        while turn <= 4:
            assert (await twin.step(turn, WORDS[turn - 1])).status_code == 200
            turn += 1
    third = house.start()
    here = in_process("household", TaskRef("dev", 3), 2, list(WORDS[:4])).to_bytes()
    for twin in (moved(one, third), moved(two, third)):
        assert (await twin.step(4, WORDS[3])).status_code == 200  # once more
        await twin.close()
        await twin.record()
        assert (await third.http.get(f"{twin.path}/record")).content == here


async def test_a_fork_can_be_reset_and_closed_on_another_server(house):
    play = await house.start().play("household", task=DEV)
    await play.step(1, "look")
    one, two = await forks(play, 2)
    second = house.start()
    again = await moved(one, second).restart()
    assert (await again.step(1, "look")).status_code == 200
    ended = (await moved(two, second).close()).json()
    assert (ended["turn"], ended["ending"]) == (1, "abandoned")
    for name in (one.episode, two.episode):
        path = one.path if name == one.episode else two.path
        assert (await house.start().get(f"{path}/record?episode={name}")).status_code == 200


async def test_several_workers_fork_the_turn_that_was_played_last(house):
    first, second = house.start(shared=True), house.start(shared=True, fresh=False)
    play = await first.play("household", task=DEV)
    assert (await moved(play, second).step(1, "look")).status_code == 200
    (twin,) = await forks(play)
    assert twin.form["turn"] == 1
    assert (await moved(twin, second).step(2, "look")).status_code == 200
    assert (await twin.step(3, "look")).status_code == 200
    assert len((await second.http.get("/v1/envs")).json()["envs"]) == 2


async def test_worlds_that_say_no_are_not_forked(serve, house):
    wire = serve("tests/Clerk-v0")
    problem(await fork(await wire.play("tests/Clerk-v0")), "not_forkable")
    ended = await serve().play()
    await ended.step(1, "win")
    problem(await fork(ended), "episode_ended")
    expired = await serve().play(ttl=5)
    expired.wire.clock.now += 6
    problem(await fork(expired), "expired")
    problem(await ended.wire.post("/v1/sessions/nobody/fork", {"key": "k"}), "session_unknown")
    problem(await ended.wire.post(f"/v1/sessions/{ended.agent_key}/fork", {"key": "k"}), "wrong_scope")


async def test_what_has_no_snapshot_is_forked_in_memory_alone(house):
    registry.register(Fleeting.spec)
    wire = house.start("fleeting")
    said = problem(await fork(await wire.play("fleeting")), "not_forkable")
    assert "durability: memory" in said["fix"]
    (twin,) = await forks(await wire.play("fleeting", durability="memory"))
    assert (await twin.step(1, "win")).json()["terminated"] is True


@pytest.mark.parametrize(
    "body", [{}, {"key": ""}, {"key": "k", "count": 0}, {"key": "k", "count": True}, {"key": 1}, []]
)
async def test_a_fork_that_makes_no_sense(wire, body):
    play = await wire.play()
    problem(await wire.post(f"{play.path}/fork", body), "invalid_request")


async def test_limits_of_creates_are_those_of_forks(serve):
    wire = serve(max_group=2)
    play = await wire.play()
    problem(await fork(play, count=3), "invalid_request")
    await wire.hall.close()
    answer = await fork(play)
    assert answer.json()["code"] in ("draining", "closed", "session_unknown")


async def test_a_fork_waits_for_the_turn_that_runs(serve):
    wire = serve("slow_room")
    play = await wire.play("slow_room")
    with GATE.shut():
        step = asyncio.create_task(play.step(1, "wait"))
        assert await asyncio.to_thread(GATE.entered.acquire, timeout=10)
        forking = asyncio.create_task(fork(play))
        await asyncio.sleep(0.01)
        assert not forking.done()
    await step
    assert (await forking).json()["sessions"][0]["turn"] == 1


async def test_a_fork_over_the_socket_is_that_over_http(wire):
    play = await wire.play()
    async with opened(wire) as line:
        made = await line.body("fork", session=play.form["session"], key="mine", count=2)
        assert (await wire.post(f"{play.path}/fork", {"key": "mine", "count": 2})).content == made
        await line.problem("key_conflict", "fork", session=play.form["session"], key="mine")
        await line.problem("invalid_request", "fork", session=play.form["session"])


async def test_a_world_in_a_process_is_forked_by_its_snapshot(serve):
    wire = serve("tests/SlowTool-v0")
    play = await wire.play("tests/SlowTool-v0")
    call = {"tool": "work", "arguments": {}}
    await play.step(1, call)
    (twin,) = await forks(play)
    assert [(await each.step(2, call)).status_code for each in (play, twin)] == [200, 200]
