"""Sessions outlive their server, and other workers' deeds, without a turn lost, doubled or swapped."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from agentenvs.core import registry
from agentenvs_servers import hall as halls
from agentenvs_servers import keeping
from agentenvs_servers.journal import operations
from agentenvs_servers.journal.rows import lookup
from tests.servers.house import moved
from tests.servers.wire import Play, key, problem

pytestmark = pytest.mark.anyio

DEV = {"split": "dev", "index": 3}


async def test_a_session_goes_on_after_its_server_is_gone(house):
    play = await house.start().play("household", task=DEV, options={"admissible": True}, trace=True)
    answers = [(await play.step(turn, "look")).content for turn in (1, 2)]
    after = moved(play, house.start())
    assert (await after.step(2, "look")).content == answers[1]
    problem(await after.step(1, "look"), "turn_past")
    problem(await after.step(2, "inventory"), "turn_conflict")
    third = (await after.step(3, "inventory")).json()
    assert (third["turn"], third["observation"]["budgets"]) == (3, {"steps": 47})
    traces = (await after.wire.get(f"{after.path}/trace")).json()["traces"]
    assert [trace["turn"] for trace in traces] == [1, 2, 3]
    assert (await after.agent_step(3, "inventory")).json() == third
    ended = (await after.close()).json()
    assert (ended["turn"], ended["ending"]) == (3, "abandoned")
    assert len((await after.record()).turns) == 3
    last = moved(play, house.start())
    problem(await last.step(4, "look"), "closed")
    assert (await last.close()).json() == ended
    assert len((await last.record()).turns) == 3


async def test_creates_and_resets_are_answered_again_by_another_server(house):
    first = house.start()
    create = {"env": "room", "key": key(), "count": 3, "ttl": 77}
    made = await first.post("/v1/sessions", create)
    play = Play(first, made.json()["sessions"][1])
    reset = {"key": key(), "ends": play.episode, "task": {"index": 2}}
    begun = await first.post(f"{play.path}/reset", reset)
    second = house.start()
    assert (await second.post("/v1/sessions", create)).content == made.content
    problem(await second.post("/v1/sessions", {**create, "count": 2}), "key_conflict")
    assert (await second.post(f"{play.path}/reset", reset)).content == begun.content
    problem(await second.post(f"{play.path}/reset", {**reset, "task": None}), "key_conflict")
    status = (await moved(play, second).status()).json()
    assert (status["episode"], status["episodes"], status["ttl"]["idle"]) == (
        begun.json()["episode"],
        [play.episode],
        77,
    )
    assert (await moved(play, second).record(play.episode)).footer["ending"] == "abandoned"


async def test_an_ended_episode_is_the_same_after_its_server_is_gone(house):
    play = await house.start().play()
    won = (await play.step(1, "win")).content
    status = (await play.status()).json()
    after = moved(play, house.start())
    assert (await after.step(1, "win")).content == won
    problem(await after.step(2, "look"), "episode_ended")
    assert (await after.status()).json() == status
    assert status["verdict"]["success"]
    assert (await after.record()).footer["ending"] == "terminated"


async def test_a_failure_of_the_environment_is_remembered_and_not_repeated(house):
    play = await house.start().play()
    failed = problem(await play.step(1, "raise"), "environment_failed")
    record = (await play.record()).digest
    after = moved(play, house.start())
    assert problem(await after.step(1, "raise"), "environment_failed") == failed
    assert (await after.status()).json()["ending"] == "aborted"
    assert (await after.record()).digest == record
    assert (await after.restart()).episode != play.episode


async def test_an_episode_goes_on_where_the_next_one_cannot_begin(house):
    play = await house.start().play(options={"fault": "begin", "at": 1})
    first = (await play.step(1, "look")).content
    problem(await play.reset({"index": 1}), "environment_failed")
    assert (await play.step(1, "look")).content == first
    assert (await play.step(2, "win")).json()["terminated"]
    assert len((await play.record()).turns) == 2
    assert (await play.restart({"index": 2})).episode != play.episode


async def test_a_long_episode_goes_on_from_a_checkpoint(house, monkeypatch):
    monkeypatch.setattr(keeping, "CHECKPOINT_SECONDS", 0.0)
    play = await house.start().play("household", task=DEV, trace=True)
    for turn in range(1, 6):
        answer = await play.step(turn, "look")
    await play.wire.hall.journal.do(operations.open_sessions)  # checkpoints are written without being waited for
    assert house.sql("SELECT turn FROM checkpoints") == [(5,)]
    house.sql("UPDATE turns SET action = ? WHERE turn < 5", b'"go to fridge 1"')  # nobody will look at these again
    after = moved(play, house.start())
    assert (await after.step(5, "look")).content == answer.content
    assert (await after.step(6, "look")).status_code == 200
    assert len((await after.wire.get(f"{after.path}/trace")).json()["traces"]) == 6
    await after.close()
    assert len((await after.record()).turns) == 6


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("UPDATE turns SET action = X'22696E76656E746F727922' WHERE turn = 2", "diverged"),
        ("UPDATE turns SET digest = X'00' WHERE turn = 1", "diverged"),
        ("UPDATE turns SET action = X'7B' WHERE turn = 2", "journal_damaged"),
        ("UPDATE turns SET effects = X'FF' WHERE turn = 2", "journal_damaged"),
        ("DELETE FROM turns WHERE turn = 1", "journal_damaged"),
        ("UPDATE episodes SET opening = X'00'", "journal_damaged"),
        ("UPDATE episodes SET player = 'x'", "journal_damaged"),
        ("UPDATE episodes SET split = X'00'", "journal_damaged"),
        ("UPDATE turns SET action = 'look' WHERE turn = 2", "journal_damaged"),
        ("UPDATE turns SET turn = 7 WHERE turn = 2", "journal_damaged"),
        ("DELETE FROM episodes", "journal_damaged"),
        ("DELETE FROM playing", "journal_damaged"),
        ("UPDATE sessions SET options = '{\"lim'", "journal_damaged"),
        ("UPDATE sessions SET options = '[]'", "journal_damaged"),
        ("UPDATE sessions SET state = 'opne'", "journal_damaged"),
        ("UPDATE sessions SET idle = 'soon'", "journal_damaged"),
        ("UPDATE sessions SET absolute = X'00'", "journal_damaged"),
        ("UPDATE sessions SET state = 'closed', farewell = X'01'", "journal_damaged"),
        (
            "UPDATE sessions SET reset_key='r', reset_form=X'00'; UPDATE episodes SET opening = X'00'",
            "journal_damaged",
        ),
        ("UPDATE episodes SET number = number + 1", "diverged"),
        ("UPDATE sessions SET release = 'older'", "version_changed"),
        ("UPDATE sessions SET env = 'tests/Gone-v0'", "version_changed"),
    ],
)
async def test_a_damaged_session_says_so_and_costs_nobody_else(house, change, code, caplog):
    first = house.start()
    play = await first.play("household", task=DEV)
    for turn in (1, 2):
        await play.step(turn, "look")
    for statement in change.split("; "):
        house.sql(statement)
    other = await first.play("household", task=DEV)
    await other.step(1, "look")
    second = house.start()
    for _ in range(2):
        problem(await moved(play, second).step(3, "look"), code)
    problem(await moved(play, second).status(), code)
    problem(await moved(play, second).close(), code)
    assert (await moved(other, second).step(2, "look")).status_code == 200
    if "env = " not in change:  # that one is another server's
        told = [line for line in caplog.messages if "is lost" in line]
        assert lookup(play.form["session"]).hex()[:12] in told[0]
        assert code in told[0]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sessions SET options = '{'",
        "UPDATE sessions SET name = 'torn'",
        "UPDATE sessions SET idle = 1.5",
        "UPDATE sessions SET env = 'tests/Gone-v0'",
        "DELETE FROM playing",
        "DELETE FROM episodes",
        "UPDATE turns SET action = X'7B'",
    ],
)
async def test_a_damaged_session_expires_as_others_do_and_holds_up_none_of_them(house, change):
    first = house.start()
    play = await first.play("household", task=DEV, ttl=50)
    await play.step(1, "look")
    house.sql(change)
    house.sql("UPDATE sessions SET touched = touched - 100")
    other = await first.play("household", task=DEV, ttl=60)
    second = house.start(max_sessions=1)
    problem(await second.make(), "at_capacity")
    house.sql("UPDATE sessions SET touched = touched - 1000")
    second.clock.now += 6
    await second.hall.sweep(now=True)
    assert {state for (state,) in house.sql("SELECT state FROM sessions")} == {"expired"}
    assert house.sql("SELECT open FROM counters") == [(0,), (0,)]
    problem(await moved(other, second).step(1, "look"), "expired")
    assert (await second.make()).status_code == 201


async def test_a_create_whose_answer_is_damaged_is_not_answered_by_half(house):
    first = house.start()
    play = await first.play("household", task=DEV, key="torn")
    house.sql("UPDATE episodes SET opening = X'00' WHERE id = ?", play.episode)
    again = {"env": "household", "key": "torn", "task": DEV}
    problem(await house.start().post("/v1/sessions", again), "journal_damaged")
    house.sql("UPDATE sessions SET create_key = 'other'")
    problem(await house.start().post("/v1/sessions", again), "journal_damaged")


@pytest.mark.parametrize("episode", ["\0", "none"])
async def test_a_record_that_never_was_is_unknown(house, episode):
    play = await house.start().play("household", task=DEV)
    answer = await play.wire.http.get(f"{play.path}/record", params={"episode": episode})
    problem(answer, "episode_unknown")


async def test_a_damaged_record_costs_that_record(house):
    play = await house.start().play("household", task=DEV)
    following = await play.restart()
    house.sql("UPDATE episodes SET record = X'0102' WHERE id = ?", play.episode)
    after = moved(following, house.start())
    answer = await after.wire.http.get(f"{play.path}/record", params={"episode": play.episode})
    problem(answer, "journal_damaged")
    assert (await after.step(1, "look")).status_code == 200


async def test_a_reset_that_the_journal_cannot_hold_leaves_the_episode_as_it_was(house, monkeypatch):
    play = await house.start().play("household", task=DEV)
    await play.step(1, "look")

    def refuse(*_):
        raise ValueError("no column holds that")

    with monkeypatch.context() as patch:
        patch.setattr(operations, "begin_episode", refuse)
        problem(await play.reset(), "internal")
    assert (await play.step(2, "look")).status_code == 200
    assert (await play.restart()).episode != play.episode


async def test_an_environment_that_cannot_be_replayed_is_lost_with_its_server(house, monkeypatch):
    spec = registry.spec("room")
    lesser = dataclasses.replace(spec, capabilities=dataclasses.replace(spec.capabilities, replayable=False))
    monkeypatch.setitem(registry._registered, spec.id, lesser)
    play = await house.start().play()
    assert (await play.step(1, "look")).status_code == 200
    problem(await moved(play, house.start()).step(2, "look"), "session_lost")


async def test_a_lost_session_expires_and_frees_its_slot(house):
    play = await house.start(max_sessions=1).play(ttl=50)
    await play.step(1, "look")
    house.sql("UPDATE turns SET digest = X'00'")
    second = house.start(max_sessions=1)
    problem(await moved(play, second).step(2, "look"), "diverged")
    problem(await second.make(), "at_capacity")
    second.clock.now += 51
    await second.hall.sweep(now=True)
    assert (await second.make()).status_code == 201


async def test_memory_sessions_stay_out_of_the_journal(house):
    wire = house.start()
    play = await wire.play(durability="memory")
    await play.step(1, "look")
    assert house.sql("SELECT count(*) FROM sessions") == [(0,)]
    problem(await moved(play, house.start()).step(2, "look"), "session_unknown")


@pytest.mark.parametrize("durability", ["group", "strict", None])
async def test_kept_sessions_are_in_the_journal(house, durability):
    play = await house.start().play(durability=durability)
    await play.step(1, "look")
    assert house.sql("SELECT strict FROM sessions") == [(durability == "strict",)]
    assert house.sql("SELECT turn FROM turns") == [(1,)]


async def test_durability_that_cannot_be_is_refused(house, serve):
    problem(await serve().make(durability="strict"), "durability_refused")
    problem(await house.start(shared=True).make(durability="memory"), "durability_refused")


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1, 10**40])
async def test_a_seed_that_the_journal_cannot_hold_is_refused(house, seed):
    wire = house.start()
    problem(await wire.make("household", task={"seed": seed}), "task_unknown")
    play = await wire.play("household", task={"seed": -(2**63)})
    problem(await play.reset({"split": "train", "seed": seed}), "task_unknown")
    assert (await play.step(1, "look")).status_code == 200
    memory = await wire.play("household", task={"seed": seed}, durability="memory")
    assert memory.form["task"]["ref"]["index"] == seed


async def test_capacity_is_counted_in_the_journal(house):
    first = house.start(max_sessions=2)
    plays = [await first.play(), await first.play()]
    second = house.start(max_sessions=2)
    refused = await second.make()
    problem(refused, "at_capacity")
    assert refused.headers["retry-after"]
    await moved(plays[0], second).close()
    assert (await second.make()).status_code == 201


async def test_idle_worlds_beyond_the_cap_are_put_aside_and_made_again(house):
    wire = house.start(max_live=2)
    plays = [await wire.play(task={"index": index}) for index in range(3)]
    for turn in (1, 2):
        for play in plays:
            assert (await play.step(turn, "look")).json()["turn"] == turn
            wire.clock.now += 2
            await wire.hall.sweep(now=True)
    assert wire.hall.counts["open"] == 2
    for play in plays:
        assert (await play.step(3, "win")).json()["terminated"]


async def test_a_session_put_aside_expires_in_its_time(house):
    wire = house.start(max_live=1)
    plays = [await wire.play(ttl=100) for _ in range(3)]
    wire.clock.now += 2
    await wire.hall.sweep(now=True)
    assert wire.hall.counts["open"] == 1
    await asyncio.gather(*wire.hall._tasks)
    house.sql("UPDATE sessions SET touched = touched - 101")  # the journal has a clock of its own
    wire.clock.now += 97
    await wire.hall.sweep(now=True)
    assert sorted(house.sql("SELECT state FROM sessions")) == [("expired",), ("expired",), ("open",)]
    states = [(await play.status()).status_code for play in plays]
    assert sorted(states) == [200, 410, 410]


async def test_what_is_over_is_forgotten_after_the_retention_time(house):
    wire = house.start(retention=60)
    play = await wire.play()
    await play.step(1, "win")
    await play.close()
    wire.clock.now += 61
    house.sql("UPDATE sessions SET over = over - 61")
    await wire.hall.sweep(now=True)
    assert house.sql("SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM episodes)") == [(0,)]
    problem(await play.status(), "session_unknown")


async def test_a_stopped_server_leaves_its_sessions_to_the_next(house):
    wire = house.start()
    play = await wire.play()
    await play.step(1, "look")
    await wire.hall.close()
    assert (await moved(play, house.start()).step(2, "win")).json()["terminated"]


async def test_a_journal_that_cannot_be_written_costs_no_turn(house):
    wire = house.start()
    play = await wire.play("household", task=DEV)
    await play.step(1, "look")
    house.sql("ALTER TABLE turns RENAME TO away")
    for action in ("look", "inventory"):
        answer = await play.step(2, action)
        problem(answer, "journal_unavailable")
        assert answer.headers["retry-after"]
    problem(await play.status(), "journal_unavailable")
    house.sql("ALTER TABLE away RENAME TO turns")
    assert (await play.step(2, "inventory")).json()["turn"] == 2
    await play.close()
    assert [turn["action"] for turn in (await play.record()).turns] == ["look", "inventory"]


async def test_a_journal_that_cannot_be_written_refuses_creates_and_resets_whole(house):
    wire = house.start()
    play = await wire.play()
    house.sql("ALTER TABLE episodes RENAME TO away")
    create, reset = {"env": "room", "key": key()}, {"key": key(), "ends": play.episode}
    problem(await wire.post("/v1/sessions", create), "journal_unavailable")
    problem(await wire.post(f"{play.path}/reset", reset), "journal_unavailable")
    problem(await play.close(), "journal_unavailable")
    house.sql("ALTER TABLE away RENAME TO episodes")
    assert (await wire.post("/v1/sessions", create)).status_code == 201
    assert (await play.step(1, "look")).json()["turn"] == 1
    assert (await wire.post(f"{play.path}/reset", reset)).status_code == 200
    assert house.sql("SELECT count(*) FROM sessions") == [(2,)]


# ---- several workers -------------------------------------------------------------------------------------------------


async def test_workers_take_turns_with_one_session(house):
    one, two = house.start(shared=True), house.start(shared=True, fresh=False)
    play = await one.play("household", task=DEV)
    for turn in range(1, 9):
        answer = await moved(play, (one, two)[turn % 2]).step(turn, "look")
        assert answer.json()["turn"] == turn
        for wire in (one, two):
            assert (await moved(play, wire).step(turn, "look")).content == answer.content
            assert (await moved(play, wire).status()).json()["turn"] == turn
            assert (await moved(play, wire).agent()).json()["turn"] == turn
    again = await moved(play, two).restart()
    problem(await moved(play, one).step(9, "look"), "episode_conflict")
    problem(await moved(play, one).agent_step(9, "look"), "closed")
    assert (await moved(again, one).step(1, "look")).status_code == 200
    assert (await moved(again, one).agent_step(1, "look")).status_code == 200
    closed = await moved(again, one).close()
    assert (await moved(again, two).close()).content == closed.content
    problem(await moved(again, two).step(2, "look"), "closed")
    for episode, turns in ((play.episode, 8), (again.episode, 1)):
        assert [len((await moved(play, wire).record(episode)).turns) for wire in (one, two)] == [turns, turns]


async def test_workers_asked_at_once_play_a_turn_once(house):
    wires = [house.start(shared=True, fresh=number == 0) for number in range(3)]
    play = await wires[0].play("household", task=DEV)
    for turn in range(1, 11):
        answers = await asyncio.gather(*(moved(play, wire).step(turn, "look") for wire in wires))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
    actions = ["look", "inventory", "go to fridge 1"]
    answers = await asyncio.gather(
        *(moved(play, wire).step(11, action) for wire, action in zip(wires, actions, strict=True))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
    await moved(play, wires[1]).close()
    assert len((await moved(play, wires[2]).record()).turns) == 11


async def test_a_worker_that_knows_less_does_not_refuse_for_a_reason_of_yesterday(house):
    one, two = house.start(shared=True), house.start(shared=True, fresh=False)
    play = await one.play(task={"index": 2})
    assert (await moved(play, two).step(1, "look")).status_code == 200
    await moved(play, two).close()
    problem(await play.reset(None), "closed")  # not split_exhausted, which was so before


async def test_workers_asked_at_once_make_a_session_once(house):
    wires = [house.start(shared=True, fresh=number == 0) for number in range(3)]
    create = {"env": "room", "key": key()}
    made = await asyncio.gather(*(wire.post("/v1/sessions", create) for wire in wires))
    assert len({answer.content for answer in made}) == 1
    assert house.sql("SELECT count(*) FROM sessions") == [(1,)]


async def test_a_session_that_another_worker_answers_does_not_expire(house, monkeypatch):
    one, two = house.start(shared=True), house.start(shared=True, fresh=False)
    play = await one.play(ttl=20)
    await moved(play, two).step(1, "look")
    for turn in range(2, 8):
        for wire in (one, two):
            wire.clock.now += 6
        house.sql("UPDATE sessions SET touched = touched - 6")
        assert (await moved(play, two).step(turn % 5 + 1, "look")).status_code in (200, 409)
        await two.hall.sweep(now=True)
        await one.hall.sweep(now=True)
    assert (await moved(play, one).status()).status_code == 200
    for wire in (one, two):
        wire.clock.now += 40
    house.sql("UPDATE sessions SET touched = touched - 40")
    await one.hall.sweep(now=True)
    assert halls.KEEP_UP_SECONDS < 6
    problem(await moved(play, two).status(), "expired")


async def test_a_session_that_nobody_answers_expires_whatever_its_workers_write_meanwhile(house):
    one, two = house.start(shared=True), house.start(shared=True, fresh=False)
    play = await one.play(ttl=20)
    for wire in (one, two):
        assert (await moved(play, wire).status()).status_code == 200
    for _ in range(11):
        for wire in (one, two):
            wire.clock.now += 4
        house.sql("UPDATE sessions SET touched = touched - 4")
        for wire in (one, two):
            await wire.hall.sweep(now=True)
    assert house.sql("SELECT state FROM sessions") == [("expired",)]


async def test_a_world_that_only_one_worker_has_is_not_taken_from_it(house, monkeypatch):
    spec = registry.spec("room")
    lesser = dataclasses.replace(spec, capabilities=dataclasses.replace(spec.capabilities, replayable=False))
    monkeypatch.setitem(registry._registered, spec.id, lesser)
    one, two = house.start(shared=True), house.start(shared=True, fresh=False)
    play = await one.play()
    await one.hall.sweep(now=True)
    problem(await moved(play, two).step(1, "look"), "elsewhere")
    assert (await play.step(1, "look")).status_code == 200
    house.sql("UPDATE sessions SET lease = lease - 60")
    problem(await moved(play, two).step(2, "look"), "session_lost")
