"""A turn is played at most once, whoever asks and however often."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.servers.wire import Play, problem

pytestmark = pytest.mark.anyio


@pytest.fixture
async def play(wire) -> Play:
    return await wire.play(trace=True)


@pytest.mark.parametrize("action", ["look", "win", "nonsense"])
async def test_the_last_turn_is_answered_again_byte_for_byte(play, action):
    first = await play.step(1, action)
    assert first.status_code == 200
    assert json.loads(first.content)["terminated"] == (action == "win")
    for again in (await play.step(1, action), await play.agent_step(1, action)):
        assert again.content == first.content
    traced = await play.step(1, action, trace=True)
    assert traced.content.startswith(b'{"result":' + first.content + b',"trace":{')
    assert (await play.step(1, action, trace=True)).content == traced.content
    assert (await play.status()).json()["turn"] == 1


async def test_a_step_says_nothing_that_differs_between_two_plays(wire):
    one, two = await wire.play(), await wire.play()
    told = [(await play.step(1, "look")).text.replace(play.episode, "") for play in (one, two)]
    assert told[0] == told[1]
    assert set((await one.step(1, "look")).json()) == {
        "episode", "turn", "observation", "reward", "terminated", "truncated", "info",
    }  # fmt: skip


async def test_a_turn_that_ended_the_episode_is_answered_again_and_another_refused(play):
    ending = await play.step(1, "win")
    problem(await play.step(2, "look"), "episode_ended")
    problem(await play.step(1, "look"), "turn_conflict")
    assert (await play.step(1, "win")).content == ending.content


async def test_refused_turns_change_nothing(play):
    await play.step(1, "look")
    before = await play.status()
    problem(await play.step(3, "look"), "turn_ahead")
    problem(await play.step(1, "win"), "turn_conflict")
    play.episode = "ep-another"
    problem(await play.step(2, "look"), "episode_conflict")
    assert (await play.status()).content == before.content


@pytest.mark.parametrize("turn", [1, 2])
async def test_played_turns_are_past_whatever_the_action(play, turn):
    for number in (1, 2, 3):
        await play.step(number, "look")
    problem(await play.step(turn, "look"), "turn_past")
    problem(await play.step(turn, "win"), "turn_past")


SAME = [
    ('{"tool": "look", "arguments": {"a": 1, "b": [2]}}', '{"arguments":{"b":[2],"a":1},"tool":"look"}'),
    ('{"tool": "a", "tool": "look"}', '{"tool": "look"}'),
    ("100.0", "1e2"),
    ('"\\u00e4"', '"ä"'),
    ("12345678901234567890123", "12345678901234567890123 "),
    ('{"a": "\\ud800", "b": 1}', '{"b": 1, "a": "\\ud800"}'),
]
OTHER = [
    ("1", "1.0"),
    ("1", "true"),
    ("0", "false"),
    ("0", "null"),
    ('""', "null"),
    ("0.0", "-0.0"),
    ("[1, 2]", "[2, 1]"),
    ('"a"', '"a "'),
    ("{}", "[]"),
    ('"\\ud800"', '"\\ufffd"'),
    ("12345678901234567890123", "12345678901234567890124"),
    ('"\\u00e4"', '"a\\u0308"'),
]


async def _two(play: Play, one: str, two: str) -> list[bytes]:
    body = '{"episode": "%s", "turn": 1, "action": %s}'
    asked = [await play.wire.raw(f"{play.path}/step", (body % (play.episode, said)).encode()) for said in (one, two)]
    assert asked[0].status_code == 200, asked[0].text
    if asked[1].status_code != 200:
        problem(asked[1], "turn_conflict")
    return [answer.content for answer in asked]


@pytest.mark.parametrize(("one", "two"), SAME)
async def test_two_spellings_of_an_action_are_the_same(play, one, two):
    first, second = await _two(play, one, two)
    assert first == second


@pytest.mark.parametrize(("one", "two"), OTHER)
async def test_two_actions_that_look_alike_are_not(play, one, two):
    first, second = await _two(play, one, two)
    assert first != second


async def test_fifty_at_once_play_one_turn(play):
    answers = await asyncio.gather(
        *(play.step(1, "look") for _ in range(25)), *(play.agent_step(1, "look") for _ in range(25))
    )
    assert len({answer.content for answer in answers}) == 1
    assert (await play.status()).json()["turn"] == 1


async def test_of_fifty_actions_for_a_turn_one_wins(play):
    answers = await asyncio.gather(*(play.step(1, f"say {number}") for number in range(50)))
    lost = [answer for answer in answers if answer.status_code != 200]
    assert len(lost) == 49
    for answer in lost:
        problem(answer, "turn_conflict")


async def test_two_clients_racing_through_an_episode_play_each_turn_once(serve):
    play = await serve().play(options={"limit": 40})

    async def run() -> list[bytes]:
        return [(await play.step(turn, "look")).content for turn in range(1, 41)]

    first, second = await asyncio.gather(run(), run())
    assert [one for one, two in zip(first, second, strict=True) if one != two and b'"turn_past"' not in one + two] == []
    record = await play.record()
    assert (len(record.turns), record.footer["ending"]) == (40, "truncated")


async def test_traces_are_kept_for_a_session_that_asks_for_them(play):
    answers = [await play.step(turn, "look", trace=True) for turn in (1, 2, 3)]
    kept = (await play.wire.get(f"{play.path}/trace?from=2")).json()
    assert kept == {"episode": play.episode, "traces": [answer.json()["trace"] for answer in answers[1:]]}
    assert (await play.wire.get(f"{play.path}/trace?from=99")).json()["traces"] == []
    assert len((await play.wire.get(f"{play.path}/trace")).json()["traces"]) == 3
    problem(await play.wire.get(f"{play.path}/trace?from=0"), "invalid_request")
    follower = await play.restart()
    assert (await play.wire.get(f"{play.path}/trace")).json() == {"episode": follower.episode, "traces": []}


async def test_many_calls_in_one_turn_are_one_turn(serve):
    play = await serve("ledger").play("ledger")
    calls = [{"tool": "next_invoice", "arguments": {}}, {"tool": "balance", "arguments": {"account": "1000"}}]
    answer = (await play.step(1, {"calls": calls})).json()
    assert answer["turn"] == 1
    assert [block["tool"] for block in answer["observation"]["blocks"]] == ["next_invoice", "balance"]
    assert (await play.step(2, {"calls": calls * 5})).json()["info"]["invalid"] is True
