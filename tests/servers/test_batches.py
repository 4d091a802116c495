"""A batch is its steps, one by one: the same bytes, the same refusals, and nothing rolled back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentenvs_servers import batches, bodies
from agentenvs_servers.hall import Hall
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.wire import StepsBody
from tests.servers.line import opened
from tests.servers.rooms import GATE
from tests.servers.wire import Play, Wire, problem

pytestmark = pytest.mark.anyio


def item(play: Play, turn: Any, action: Any, **more: Any) -> dict[str, Any]:
    return {"session": play.form["session"], "episode": play.episode, "turn": turn, "action": action, **more}


async def steps(wire: Wire, *items: dict[str, Any]) -> httpx.Response:
    answer = await wire.post("/v1/steps", {"items": list(items)})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer


def joined(*answers: httpx.Response) -> bytes:
    """Return the answer of a batch, made from those of its steps."""
    parts = []
    for answer in answers:
        name = b"result" if answer.status_code == 200 else b"problem"
        parts.append(b'{"status":%d,"%b":%b}' % (answer.status_code, name, answer.content))
    return b'{"items":[%b]}' % b",".join(parts)


async def test_answers_have_the_bytes_of_single_steps(wire):
    plays = [await wire.play(trace=True) for _ in range(3)]
    asked = [(1, "look", {}), (1, "nonsense", {"trace": True}), (1, "win", {"trace": False})]
    batch = await steps(wire, *(item(play, *step[:2], **step[2]) for play, step in zip(plays, asked, strict=True)))
    singles = [await play.step(*step[:2], **step[2]) for play, step in zip(plays, asked, strict=True)]
    assert batch.content == joined(*singles)
    again = await steps(wire, *(item(play, *step[:2], **step[2]) for play, step in zip(plays, asked, strict=True)))
    assert again.content == batch.content


async def test_a_batch_plays_what_single_steps_play(wire):
    one, two = await wire.play(), await wire.play()
    actions = ["look", "nonsense", "look", {"tool": "look", "arguments": {}}, "win"]
    batch = (await steps(wire, *(item(one, turn, action) for turn, action in enumerate(actions, 1)))).json()["items"]
    for turn, action in enumerate(actions, 1):
        single = (await two.step(turn, action)).json()
        assert {**batch[turn - 1]["result"], "episode": two.episode} == single
    assert (await one.record()).digest == (await two.record()).digest


async def test_items_of_a_session_are_played_in_order_and_nothing_is_rolled_back(wire):
    one, two = await wire.play(), await wire.play()
    batch = await steps(
        wire,
        item(one, 1, "look"),
        item(two, 2, "look"),  # not yet
        item(one, 1, "win"),  # played with another action
        item(two, 1, "look"),
        item(one, 3, "look"),  # not yet
        item(one, 2, "look"),
        item(one, 1, "look"),  # over
        item(one, 3, "win"),
        item(one, 4, "look"),  # ended
    )
    found = [each.get("problem", {}).get("code", each["status"]) for each in batch.json()["items"]]
    assert found == [200, "turn_ahead", "turn_conflict", 200, "turn_ahead", 200, "turn_past", 200, "episode_ended"]
    assert len((await one.record()).turns) == 3


async def test_refusals_are_those_of_single_steps(serve):
    wire = serve(max_action_bytes=100)
    play, closed, failing = await wire.play(), await wire.play(), await wire.play()
    await closed.close()
    other = await play.restart()
    items = [
        {**item(play, 1, "look"), "session": "nobody"},
        {**item(play, 1, "look"), "session": play.agent_key},
        item(play, 1, "look"),  # its episode is over
        item(closed, 1, "look"),
        item(failing, 1, "raise"),
        item(other, 1, "x" * 101),
    ]
    batch = await steps(wire, *items)
    codes = [each["problem"]["code"] for each in batch.json()["items"]]
    assert codes == [
        "session_unknown", "wrong_scope", "episode_conflict", "closed", "environment_failed", "action_too_large",
    ]  # fmt: skip
    singles = []
    for each in items:
        body = {name: value for name, value in each.items() if name != "session"}
        singles.append(await wire.post(f"/v1/sessions/{each['session']}/step", body))
    assert batch.content == joined(*singles)


async def test_no_steps_are_a_batch_too(wire):
    assert (await steps(wire)).content == b'{"items":[]}'


async def test_a_batch_is_of_the_control_scope(serve):
    token = "a-token-of-many-characters"
    wire = serve(tokens=(token,))
    problem(await wire.post("/v1/steps", {"items": []}), "unauthorized")
    assert (await wire.post("/v1/steps", {"items": []}, token)).status_code == 200
    open_wire = serve()
    play = await open_wire.play()
    problem(await open_wire.post("/v1/steps", {"items": [item(play, 1, "look")]}, play.agent_key), "wrong_scope")


async def test_a_batch_has_a_length_and_a_form(serve):
    wire = serve(max_batch=3)
    play = await wire.play()
    assert len((await steps(wire, *[item(play, 1, "look")] * 3)).json()["items"]) == 3
    problem(await wire.post("/v1/steps", {"items": [item(play, 2, "look")] * 4}), "batch_too_long")
    for wrong in ({}, [], {"items": {}}, {"items": [], "more": 1}, {"items": [item(play, 2, "look"), {}]}, 3):
        problem(await wire.post("/v1/steps", wrong), "invalid_request")
    assert (await play.status()).json()["turn"] == 1


async def test_a_world_that_blocks_holds_up_no_other_of_the_batch(serve):
    wire = serve("slow_room", "room")
    slow, slower, quick = await wire.play("slow_room"), await wire.play("slow_room"), await wire.play("room")
    with GATE.shut():
        batch = asyncio.create_task(
            steps(wire, item(slow, 1, "wait"), item(slower, 1, "wait"), item(quick, 1, "look"), item(slow, 2, "win"))
        )
        for _ in range(2):
            assert await asyncio.to_thread(GATE.entered.acquire, timeout=10)
        assert (await quick.status()).json()["turn"] == 1
        assert (await quick.step(2, "look")).status_code == 200
        assert not batch.done()
    assert [each["status"] for each in (await batch).json()["items"]] == [200] * 4
    assert len((await slow.record()).turns) == 2


async def test_a_batch_whose_client_goes_away_is_played_to_its_end(serve):
    wire = serve("slow_room")
    play = await wire.play("slow_room")
    with GATE.shut():
        batch = asyncio.create_task(steps(wire, item(play, 1, "wait"), item(play, 2, "win")))
        assert await asyncio.to_thread(GATE.entered.acquire, timeout=10)
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
    again = await steps(wire, item(play, 2, "win"))
    assert again.json()["items"][0]["result"]["terminated"] is True
    assert len((await play.record()).turns) == 2


async def test_the_failure_of_one_step_takes_no_other_answer(wire, monkeypatch, caplog):
    one, two = await wire.play(), await wire.play()
    real = Hall.enter

    def fails(hall: Hall, name: str) -> Any:
        if name == one.form["session"]:
            raise RuntimeError("words of the server's")
        return real(hall, name)

    monkeypatch.setattr(Hall, "enter", fails)
    batch = await steps(wire, item(one, 1, "look"), item(two, 1, "look"))
    assert [each["status"] for each in batch.json()["items"]] == [500, 200]
    assert "words" not in batch.text + caplog.text


async def test_a_batch_keeps_its_sessions_alive(serve):
    wire = serve()
    play = await wire.play(ttl=10)
    for turn in (1, 2, 3):
        wire.clock.now += 8
        batch = await steps(wire, item(play, turn, "look"))
        assert batch.json()["items"][0]["status"] == 200
    wire.clock.now += 11
    batch = await steps(wire, item(play, 4, "look"))
    assert batch.json()["items"][0]["problem"]["code"] == "expired"


# ---- the form --------------------------------------------------------------------------------------------------------

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
NAMES = st.sampled_from(["s", "é", "x" * 200, "x" * 201, "\ud800", ""]) | JSON_VALUES
TURNS = st.sampled_from([0, 1, 2**53, 2**53 + 1, True, 1.0, "1", None]) | st.integers()
ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "session": NAMES,
        "episode": NAMES,
        "turn": TURNS,
        "action": JSON_VALUES,
        "trace": st.booleans() | JSON_VALUES,
        "more": JSON_VALUES,
    },
)
GOOD = st.fixed_dictionaries(
    {
        "session": st.text(max_size=9),
        "episode": st.text(max_size=9),
        "turn": st.integers(1, 2**53),
        "action": JSON_VALUES,
    },
    optional={"trace": st.booleans()},
)  # fmt: skip
FORMS = (
    st.fixed_dictionaries({"items": st.lists(GOOD | ITEMS, max_size=3)})
    | st.fixed_dictionaries({"items": st.lists(GOOD, max_size=3)}, optional={"more": JSON_VALUES})
    | JSON_VALUES
)


@given(FORMS)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_checked_by_hand_is_what_the_model_takes(form):
    try:
        wanted: Any = [(i.session, i.episode, i.turn, i.action, i.trace) for i in StepsBody.model_validate(form).items]
    except ValueError as error:
        wanted = bodies.faults(error)  # type: ignore[arg-type]
    try:
        found: Any = [tuple(step) for step in batches.parse(form, 10)]
    except ProblemError as refused:
        found = json.loads(refused.body)["detail"]
    assert repr(found) == repr(wanted)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.sampled_from(["look", "win", "no"])), max_size=12))
@settings(max_examples=60, deadline=None)
def test_any_batch_is_answered_as_its_steps_one_by_one_would_be(asked):
    from agentenvs_servers.settings import Settings

    async def both() -> None:
        wires = [Wire(("room",), Settings()) for _ in range(2)]
        halves = [[await wire.play() for _ in range(3)] for wire in wires]
        batch = await steps(wires[0], *(item(halves[0][who], turn, action) for who, turn, action in asked))
        singles = [await halves[1][who].step(turn, action) for who, turn, action in asked]
        names = {there.episode: here.episode for here, there in zip(*halves, strict=True)}
        wanted = joined(*singles)
        for there, here in names.items():
            wanted = wanted.replace(there.encode(), here.encode())
        assert batch.content == wanted
        for wire in wires:
            await wire.hall.close()

    asyncio.run(both())


async def test_every_problem_is_counted_whatever_it_came_in(serve):
    wire = serve("room")
    play = await wire.play()
    item = {"session": play.form["session"], "episode": play.episode, "action": "look"}
    unknown = {**item, "session": "0" * 8 + ".s.x", "turn": 1}
    answer = await wire.post("/v1/steps", {"items": [{**item, "turn": 5}, {**item, "turn": 7}, unknown]})
    assert [each["status"] for each in answer.json()["items"]] == [409, 409, 404]
    problem(await wire.get("/nowhere"), "route_unknown")
    problem(await wire.http.put("/health"), "method_unknown")
    async with opened(wire) as line:
        line.raw("{")
        await line.hear()
    told = (await wire.get("/metrics")).text
    for code, count in {
        "turn_ahead": 2,
        "session_unknown": 1,
        "route_unknown": 1,
        "method_unknown": 1,
        "bad_json": 1,
    }.items():
        assert f'agentenvs_problems_total{{code="{code}",worker="0"}} {count}\n' in told


async def test_a_failure_of_the_server_is_counted_as_internal(serve, monkeypatch):
    wire = serve("room")
    play = await wire.play()

    def fail(*_: object) -> None:
        raise RuntimeError("never to be told")

    monkeypatch.setattr(type(wire.hall), "using", fail)
    problem(await play.step(1, "look"), "internal")
    problem(await play.status(), "internal")
    assert 'agentenvs_problems_total{code="internal",worker="0"} 2\n' in (await wire.get("/metrics")).text
