"""Sealed scenarios are given out once, say nothing of what is hidden, and cannot be found by guessing."""

from __future__ import annotations

import asyncio
import json
import zlib

import pytest

from agentenvs.core.errors import ConfigError, RecordError
from agentenvs.core.record import parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs_servers import run
from tests.servers.house import moved
from tests.servers.rooms import SECRET
from tests.servers.wire import key, problem

pytestmark = pytest.mark.anyio

VAULT = {"split": "vault"}
SEALED = {"split": "sealed"}
OPERATORS = "00112233445566778899aabbccddeeff" * 2


@pytest.fixture(autouse=True)
def _secret(monkeypatch):
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", OPERATORS)


async def test_each_scenario_is_given_out_once_and_never_again(house):
    wire = house.start()
    given = [(await wire.play(task=VAULT)).form["task"]["ref"]["index"] for _ in range(3)]
    assert sorted(given) == [0, 1, 2]
    problem(await wire.make(task=VAULT), "split_exhausted")
    problem(await house.start().make(task=VAULT), "split_exhausted")


async def test_another_secret_is_another_split(house, monkeypatch):
    wire = house.start()
    for _ in range(3):
        await wire.play(task=VAULT)
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", OPERATORS[::-1])
    assert (await wire.make(task=VAULT)).status_code == 201


async def test_every_tenant_is_given_every_scenario(house):
    tokens = ("first-token-of-two", "second-token-of-two")
    wire = house.start(tokens=tokens)
    for token in tokens:
        made = [await wire.post("/v1/sessions", {"env": "room", "key": key(), "task": VAULT}, token) for _ in range(4)]
        assert [answer.status_code for answer in made] == [201, 201, 201, 409]


async def test_a_create_asked_again_gives_out_nothing_more(house):
    wire = house.start()
    create = {"env": "room", "key": key(), "task": VAULT}
    first = await wire.post("/v1/sessions", create)
    assert (await wire.post("/v1/sessions", create)).content == first.content
    assert (await house.start().post("/v1/sessions", create)).content == first.content
    assert house.sql("SELECT count(*) FROM attempts") == [(1,)]


async def test_workers_asked_at_once_give_out_each_scenario_once(house):
    wires = [house.start(shared=True, fresh=number == 0) for number in range(3)]
    made = await asyncio.gather(*(wire.make(task=VAULT) for wire in wires))
    assert sorted(answer.json()["task"]["ref"]["index"] for answer in made) == [0, 1, 2]


@pytest.mark.parametrize(
    "more",
    [
        {"task": {"split": "vault", "index": 1}},
        {"task": {"split": "vault", "seed": 1}},
        {"count": 2},
        {"options": {"limit": 100}},
        {"trace": True},
        {"tasks": [VAULT], "task": None},
    ],
)
async def test_a_client_decides_nothing(house, more):
    wire = house.start()
    problem(await wire.make(**{"task": VAULT, **more}), "sealed_rule")
    assert house.sql("SELECT count(*) FROM attempts") == [(0,)]


async def test_a_server_without_journal_or_secret_serves_none(house, serve, monkeypatch):
    problem(await serve().make(task=VAULT), "sealed_closed")
    problem(await house.start().make(task=VAULT, durability="memory"), "sealed_closed")
    monkeypatch.delenv("AGENTENVS_SEALED_SECRET")
    problem(await house.start().make(task=VAULT), "sealed_closed")


async def test_it_is_played_once_and_not_traced(house):
    wire = house.start()
    play = await wire.play(task=VAULT)
    problem(await play.reset("same"), "sealed_rule")
    problem(await play.step(1, "look", trace=True), "sealed_rule")
    problem(await wire.get(f"{play.path}/trace"), "trace_off")
    problem(await wire.get(f"{play.path}/record"), "episode_running")
    other = await wire.play()
    problem(await other.reset(VAULT), "sealed_rule")
    assert (await other.step(1, "look")).status_code == 200


@pytest.mark.parametrize("ending", ["win", "leave", "run out", "server"])
async def test_no_byte_tells_what_is_hidden(house, ending):
    wire = house.start()
    play = await wire.play(task=VAULT)
    said = [json.dumps(play.form)]
    turns = {"win": ["look", "win"], "leave": ["look"], "run out": ["look"] * 5, "server": ["look"]}[ending]
    for turn, action in enumerate(turns, start=1):
        said.append((await play.step(turn, action)).text)
        said.append((await play.agent()).text)
        said.append((await play.status()).text)
    if ending == "server":
        play = moved(play, house.start())
    said.append((await play.close()).text)
    answer = await play.wire.http.get(f"{play.path}/record")
    said.append(answer.text)
    assert [text for text in said if SECRET in text] == []
    (record,) = parse_records(answer.content)
    won = ending == "win"
    assert (record.verdict.success, record.verdict.reward, record.verdict.facts) == (won, float(won), {})
    assert [turn["action"] for turn in record.turns] == turns
    for refused in (replay, rescore):
        with pytest.raises(RecordError, match="is redacted"):
            refused(record)


async def test_the_operators_copy_is_whole(house):
    play = await house.start().play(task=VAULT)
    await play.step(1, "win")
    await play.close()
    ((packed,),) = house.sql("SELECT record FROM episodes")
    (record,) = parse_records(zlib.decompress(packed))
    assert SECRET in json.dumps(record.footer)
    assert replay(record).equal
    assert rescore(record).equal


async def test_a_sealed_session_goes_on_after_its_server_is_gone(house):
    play = await house.start().play(task=VAULT)
    await play.step(1, "look")
    after = moved(play, house.start())
    assert (await after.step(2, "win")).json()["reward"] == 1.0
    assert (await after.status()).json()["verdict"] == {
        "reward": 1.0,
        "success": True,
        "components": {},
        "reasons": [],
        "facts": {},
    }


async def test_the_secret_is_nowhere_in_the_journal(house):
    play = await house.start().play("household", task=SEALED)
    await play.step(1, "look")
    await play.close()
    written = house.path.read_bytes() + house.path.with_name(f"{house.path.name}-wal").read_bytes()
    assert bytes.fromhex(OPERATORS) not in written
    assert OPERATORS.encode() not in written


@pytest.mark.parametrize("secret", ["xyz", "5" * 30, "z" * 64])
def test_a_secret_that_cannot_be_used_is_told_at_the_start_and_not_shown(monkeypatch, secret):
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", secret)
    with pytest.raises(ConfigError, match="operator's secret") as caught:
        run.serve(["room"], port=0)
    assert secret not in str(caught.value) + caught.value.why + caught.value.fix
