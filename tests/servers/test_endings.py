"""However an episode ends, it has a verdict, and a record that replays and rescores."""

from __future__ import annotations

import pytest

from tests.servers.rooms import SECRET
from tests.servers.wire import Play, problem

pytestmark = pytest.mark.anyio


async def _ended(play: Play, ending: str, reward: float = 0.0) -> None:
    record = await play.record(play.episode)
    assert record.footer["ending"] == ending
    assert record.footer["verdict"]["reward"] == reward


@pytest.mark.parametrize(
    ("actions", "ending", "reward"), [(["win"], "terminated", 1.0), (["look"] * 5, "truncated", 0.0)]
)
async def test_a_world_ends_by_itself(wire, actions, ending, reward):
    play = await wire.play()
    for turn, action in enumerate(actions, start=1):
        last = (await play.step(turn, action)).json()
    assert (last["terminated"], last["truncated"], last["reward"]) == (
        ending == "terminated",
        ending == "truncated",
        reward,
    )
    told = (await play.status()).json()
    assert (told["open"], told["ending"], told["verdict"]["reward"]) == (True, ending, reward)
    assert (told["scenario"], told["labels"], told["episodes"]) == (f"{SECRET}/0", {"kind": SECRET}, [play.episode])
    assert told["last"] == last
    await _ended(play, ending, reward)


async def test_a_running_episode_tells_nothing_of_its_end(wire):
    play = await wire.play()
    await play.step(1, "look")
    told = await play.status()
    assert SECRET not in told.text
    assert {told.json()[name] for name in ("ending", "verdict", "scenario")} == {None}
    assert (told.json()["labels"], told.json()["episodes"]) == (None, [])


async def test_a_reset_abandons_the_running_episode(wire):
    play = await wire.play()
    await play.step(1, "look")
    follower = await play.restart()
    assert SECRET not in (await follower.status()).text
    await _ended(play, "abandoned")
    problem(await wire.get(f"{play.path}/record"), "episode_running")


async def test_a_reset_leaves_an_ended_episode_as_it_ended(wire):
    play = await wire.play()
    await play.step(1, "win")
    before = await play.record()
    follower = await play.restart()
    assert await play.record(play.episode) == before
    assert (await follower.status()).json()["episodes"] == [play.episode]


@pytest.mark.parametrize(("query", "ending"), [({}, "abandoned"), ({"ending": "truncated"}, "truncated")])
async def test_a_close_ends_the_running_episode(wire, query, ending):
    play = await wire.play()
    await play.step(1, "look")
    answer = await play.close(**query)
    assert answer.status_code == 200
    told = answer.json()
    assert (told["open"], told["ending"], told["labels"]) == (False, ending, {"kind": SECRET})
    assert (await play.close()).content == answer.content == (await play.close(ending="truncated")).content
    await _ended(play, ending)
    for refused in (play.status(), play.step(1, "look"), play.reset(), play.agent(), play.agent_step(1, "look")):
        problem(await refused, "closed")
    problem(await wire.post(f"{play.path}/ping", None), "closed")


async def test_a_close_does_not_change_how_an_episode_ended(wire):
    play = await wire.play()
    await play.step(1, "win")
    assert (await play.close()).json()["ending"] == "terminated"
    await _ended(play, "terminated", 1.0)


@pytest.mark.parametrize("ending", ["terminated", "aborted", "", "ABANDONED"])
async def test_no_other_ending_can_be_asked_for(wire, ending):
    play = await wire.play()
    problem(await play.close(ending=ending), "invalid_request")
    assert (await play.status()).json()["open"] is True


async def test_an_expired_episode_is_abandoned(wire):
    play = await wire.play(ttl=5)
    await play.step(1, "look")
    wire.clock.now += 6
    assert f"record?episode={play.episode}" in problem(await play.status(), "expired")["detail"]
    problem(await play.close(), "expired")
    await _ended(play, "abandoned")


async def test_a_server_that_stops_aborts_what_runs(wire):
    play, done = await wire.play(), await wire.play()
    await play.step(1, "look")
    await done.step(1, "win")
    await wire.hall.close()
    await _ended(play, "aborted")
    await _ended(done, "terminated", 1.0)
    assert wire.hall.counts["open"] == 0


async def test_the_records_of_all_episodes_can_be_had_after_the_close(wire):
    play = first = await wire.play(task={"split": "train", "seed": 0})
    names = [first.episode]
    for _ in range(4):
        play = await play.restart()
        names.append(play.episode)
    told = (await play.close()).json()
    assert told["episodes"] == names
    assert [(await first.record(name)).ref.index for name in names] == [0, 1, 2, 3, 4]
    assert (await first.record()).ref.index == 4


async def test_the_oldest_records_of_an_open_session_go_first(serve):
    wire = serve(kept_episodes=2)
    play = first = await wire.play(task={"split": "train", "seed": 0})
    for _ in range(3):
        play = await play.restart()
    assert len((await play.status()).json()["episodes"]) == 2
    problem(await wire.get(f"{play.path}/record?episode={first.episode}"), "episode_unknown")


async def test_the_record_says_what_the_client_says_of_the_player(wire):
    play = await wire.play(player={"privileged": True, "library": "a" * 64})
    follower = await play.restart()
    await follower.close()
    first, second = await play.record(play.episode), await play.record(follower.episode)
    assert (first.header["privileged"], first.header["library"]) == (True, "a" * 64)
    assert (second.header["privileged"], second.header["library"]) == (False, None)


async def test_a_household_is_played_to_its_end_and_the_record_is_that_of_a_play_in_process(serve):
    from agentenvs.core import registry
    from agentenvs.core.record import Recorded, parse_records
    from agentenvs.core.task import TaskRef

    play = await serve("household").play("household", task={"split": "builtin", "index": 3}, options={"limit": 20})
    recorded = Recorded(registry.make("household", limit=20))
    recorded.reset(TaskRef("builtin", 3))
    for turn in range(1, 21):
        action = ["look", "inventory", "go to fridge 1", "\u200bopen fridge 1", {"tool": "look"}][turn % 5]
        seen = recorded.step(action)
        answer = (await play.step(turn, action)).json()
        assert answer["observation"] == seen.observation.to_json()
        assert (answer["reward"], answer["info"]) == (seen.reward, seen.info)
    assert await play.record() == parse_records(recorded.to_bytes())[0]
