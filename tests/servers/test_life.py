"""Sessions expire when nobody asks, never while somebody is served; slots come free; what is over is forgotten."""

from __future__ import annotations

import asyncio

import pytest

from agentenvs_servers.hall import Hall
from tests.servers.rooms import GATE
from tests.servers.wire import Play, Wire, key, problem

pytestmark = pytest.mark.anyio


async def _ping(play: Play):
    return await play.wire.post(f"{play.path}/ping", None)


CALLS = {
    "step": lambda play: play.step(1, "look"),
    "agent_step": lambda play: play.agent_step(1, "look"),
    "status": lambda play: play.status(),
    "agent": lambda play: play.agent(),
    "ping": _ping,
    "refused": lambda play: play.step(9, "look"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_an_answered_call_keeps_a_session_alive(wire, call):
    play = await wire.play(ttl=10)
    for _ in range(5):
        wire.clock.now += 9
        await call(play)
    assert (await _ping(play)).json() == {"idle": 10.0, "absolute": 86_400 - 45.0}
    wire.clock.now += 10
    problem(await call(play), "expired")
    assert wire.hall.counts["open"] == 0


async def test_the_absolute_time_ends_a_session_that_is_used(serve):
    wire = serve(absolute_ttl=20)
    play = await wire.play(ttl=15)
    assert play.form["ttl"] == {"idle": 15, "absolute": 20}
    for _ in range(2):
        wire.clock.now += 9
        await _ping(play)
    wire.clock.now += 3
    problem(await _ping(play), "expired")


async def test_an_old_agent_key_keeps_nothing_alive(wire):
    play = await wire.play(ttl=10)
    await play.restart()
    wire.clock.now += 9
    problem(await play.agent(), "closed")
    wire.clock.now += 2
    problem(await play.status(), "expired")


async def test_a_session_is_not_reaped_under_its_client(serve):
    wire = serve("slow_room", absolute_ttl=1000)
    play = await wire.play("slow_room", ttl=10)
    with GATE.shut():
        step = asyncio.create_task(play.step(1, "wait"))
        await asyncio.to_thread(GATE.entered.acquire, timeout=10)
        wire.clock.now += 999
        await wire.hall.sweep(now=True)
        assert wire.hall.counts["open"] == 1
        ping = await _ping(play)
        assert ping.status_code == 200
        wire.clock.now += 2
        await wire.hall.sweep(now=True)
        problem(await _ping(play), "expired")
        assert wire.hall.counts["open"] == 1
    assert (await step).status_code == 200
    await wire.hall.sweep(now=True)
    assert wire.hall.counts["open"] == 0
    assert len((await play.record()).turns) == 1


async def test_the_sweep_ends_what_is_due_and_forgets_what_is_long_over(serve):
    wire = serve(retention=100)
    plays = [await wire.play(ttl=ttl) for ttl in (10, 50)]
    await plays[0].step(1, "look")
    wire.clock.now += 11
    await wire.hall.sweep(now=True)
    assert (wire.hall.counts["open"], wire.hall.counts["past"]) == (1, 1)
    await plays[0].record()
    wire.clock.now += 40
    await wire.hall.sweep(now=True)
    wire.clock.now += 61
    await wire.hall.sweep(now=True)
    assert (wire.hall.counts["open"], wire.hall.counts["past"]) == (0, 1)
    problem(await wire.get(f"{plays[0].path}/record"), "session_unknown")
    await plays[1].record()
    wire.clock.now += 100
    await wire.hall.sweep(now=True)
    assert set(wire.hall.counts.values()) == {0}


async def test_slots_come_free_when_sessions_end(serve):
    wire = serve(max_sessions=2)
    plays = [await wire.play(ttl=10) for _ in range(2)]
    answer = await wire.make()
    assert problem(answer, "at_capacity")["detail"] == "2 of 2 are open, and 1 more were asked for"
    assert answer.headers["retry-after"] == "10"
    await plays[0].close()
    plays.append(await wire.play())
    problem(await wire.make(), "at_capacity")
    wire.clock.now += 11
    assert (await wire.make()).status_code == 201


async def test_creates_at_the_same_time_take_no_more_than_the_slots(serve):
    wire = serve("slow_room", max_sessions=5)
    answers = await asyncio.gather(*(wire.make("slow_room", count=2) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [201, 201, 503, 503, 503]
    assert wire.hall.counts["open"] == 4


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"count": 4}, "4 sessions at once; the limit is 3"),
        ({"tasks": [{}] * 4}, "4 sessions at once; the limit is 3"),
        ({"ttl": 61}, "ttl: the limit is 60 seconds"),
    ],
)
async def test_a_create_has_limits(serve, body, said):
    wire = serve(max_group=3, max_idle_ttl=60)
    assert problem(await wire.make(**body), "invalid_request")["detail"] == said


async def _filled(wire: Wire) -> list[Play]:
    plays = []
    for _ in range(12):
        plays.append(await wire.play())
        for turn in range(1, 5):
            await plays[-1].step(turn, f"{turn} {'x' * 3000}")
        await plays[-1].close()
    return plays


async def test_records_of_closed_sessions_take_a_bounded_space(serve, caplog):
    wire = serve(retained_bytes=40_000)
    plays = await _filled(wire)
    await wire.hall.sweep(now=True)
    assert 0 < wire.hall.counts["past"] < 12
    assert wire.hall.counts["kept_bytes"] <= 40_000
    problem(await wire.get(f"{plays[0].path}/record"), "session_unknown")
    await plays[-1].record()
    assert "retained_bytes is reached" in caplog.text


async def test_records_of_open_sessions_take_a_bounded_space_too(serve):
    wire = serve(retained_bytes=5_000)
    play = await wire.play(task={"split": "train", "seed": 0})
    for _ in range(30):
        play = await play.restart()
        assert wire.hall.counts["kept_bytes"] < 6_500
    assert len((await play.status()).json()["episodes"]) >= 1


async def test_a_thousand_sessions_leave_nothing(serve):
    wire = serve(retention=10)
    for number in range(1000):
        play = await wire.play(ttl=5) if number % 2 else Play(wire, (await wire.make(count=1)).json()["sessions"][0])
        if number % 3 == 0:
            play = await play.restart()
        if number % 5:
            await play.close()
    wire.clock.now += 900
    await wire.hall.sweep(now=True)
    wire.clock.now += 11
    await wire.hall.sweep(now=True)
    assert set(wire.hall.counts.values()) == {0}
    assert (wire.hall.creates._made_by, wire.hall.tools.agents) == ({}, {})


async def test_the_server_sweeps_by_itself(wire, monkeypatch):
    swept = asyncio.Event()

    async def sweep(self: Hall, *, now: bool = False) -> None:
        swept.set()
        raise RuntimeError("once")

    monkeypatch.setattr("agentenvs_servers.hall.SWEEP_SECONDS", 0.01)
    monkeypatch.setattr(Hall, "sweep", sweep)
    running = asyncio.create_task(wire.hall.run())
    for _ in range(2):
        swept.clear()
        await asyncio.wait_for(swept.wait(), 5)
    running.cancel()


async def test_records_are_dropped_with_their_session_where_that_is_asked_for(serve):
    wire = serve()
    play = await wire.play(records="drop")
    assert (await play.step(1, "look")).status_code == 200
    following = await play.restart()
    assert (await play.record(play.episode)).turns
    (twin,) = (await wire.post(f"{play.path}/fork", {"key": key()})).json()["sessions"]
    for form in (following.form, twin):
        one = Play(wire, form)
        farewell = (await one.close()).json()
        assert (farewell["episodes"], farewell["ending"]) == ([], "abandoned")
        assert (await one.close()).json() == farewell
        problem(await wire.get(f"{one.path}/record"), "episode_unknown")
        problem(await wire.http.get(f"{one.path}/record", params={"episode": play.episode}), "episode_unknown")
    kept = await wire.play()
    await kept.close()
    assert (await kept.record()).turns == ()
    before = wire.hall.counts["kept_bytes"]
    await (await wire.play(records="drop")).close()
    assert wire.hall.counts["kept_bytes"] - before < len((await wire.get(f"{kept.path}/record")).content) + 6_000


async def test_records_in_the_journal_are_not_dropped(house):
    wire = house.start()
    problem(await wire.make("household", records="drop"), "durability_refused")
    problem(await wire.make("household", records="drop", durability="strict"), "durability_refused")
    assert (await wire.make("household", records="drop", durability="memory")).status_code == 201
    assert (await wire.make("household", key="one")).status_code == 201
    assert (await wire.make("household", key="one", records="keep")).status_code == 201
