"""The fixture worlds are what they are there for: long and heavy, slow and deadly, a dialogue the other may leave."""

from __future__ import annotations

import json

import pytest

from agentenvs.core import registry
from agentenvs.core.hosting import Hosted
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs.core.task import TaskRef
from agentenvs.harness.policies import resolve
from agentenvs.harness.rollout import play
from tests.envs.fixtures import register_fixtures

register_fixtures()

REF = TaskRef("train", 2)


def _post(number: int, entry: list) -> dict:
    debit, credit, cents = entry
    return {"tool": "post", "arguments": {"invoice": number, "debit": debit, "credit": credit, "cents": cents}}


def test_a_ledger_lasts_three_thousand_turns_and_its_checkpoints_hold_to_the_last():
    env, twin = registry.make("ledger"), registry.make("ledger")
    env.reset(REF)
    invoices = env.current.to_json()["hidden"]["invoices"]
    for number, invoice in enumerate(invoices):
        env.step(_post(number, invoice))
    for turn in range(len(invoices), 2_999):
        note = {"entry": turn, "note": f"seen in turn {turn} ".ljust(180, ".")}
        assert not env.step([{"tool": "amend", "arguments": note}, {"tool": "next_invoice"}]).info["invalid"]
    data = env.snapshot()
    assert len(data) > 1_000_000
    twin.restore(data)
    for one in (env, twin):
        result = one.step({"tool": "close_books"})
        assert (result.terminated, result.reward, one.turn) == (True, 1.0, 3_000)
    assert twin.snapshot() == env.snapshot()


def test_a_ledger_that_is_never_closed_is_truncated_at_its_limit():
    env = registry.make("ledger")
    env.reset(REF)
    for _ in range(2_999):
        assert not env.step({"tool": "balance", "arguments": {"account": "1000"}}).truncated
    assert env.step({"tool": "next_invoice"}).truncated


def test_the_key_of_a_ledger_knows_no_history():
    env = registry.make("ledger")
    env.reset(REF)
    first = [_post(0, ["1000", "1010", 5]), _post(1, ["1020", "1030", 7])]
    env.step(first)
    key = env.state_key
    env.reset(REF)
    env.step({"tool": "amend", "arguments": {"entry": 1, "note": "seen"}})
    note = next(note for note in [registry.make("ledger")] if note.reset(REF)).world.notes[1]
    env.step(list(reversed(first)))
    env.step({"tool": "amend", "arguments": {"entry": 1, "note": note}})
    assert env.state_key == key


def test_several_calls_are_one_turn_with_one_block_each():
    env = registry.make("ledger")
    env.reset(REF)
    calls = [{"tool": "next_invoice"}, {"tool": "fly"}, _post(0, ["1000", "1010", 5])]
    result = env.step(calls)
    assert [block.tool for block in result.observation.blocks] == ["next_invoice", "fly", "post"]
    assert [call["valid"] for call in result.info["data"]["calls"]] == [True, False, True]
    assert (env.turn, result.info["invalid"]) == (1, False)


def test_calls_after_the_end_are_not_played():
    env = registry.make("ledger")
    env.reset(REF)
    result = env.step([{"tool": "close_books"}, _post(0, ["1000", "1010", 5])])
    assert result.terminated
    assert len(result.observation.blocks) == 1
    assert env.verdict.facts == {"posted": {}}


def test_a_customer_may_hang_up_first():
    recorded = Recorded(registry.make("clerk"))
    recorded.reset(REF)
    for _ in range(2):
        assert not recorded.step({"message": "Nice weather."}).terminated
    result = recorded.step({"message": "Nice weather."})
    assert (result.terminated, result.reward) == (True, 0.0)
    assert result.observation.text == "Customer: Goodbye!"
    assert recorded.env.last_trace.actor == "customer"
    assert recorded.env.ending == "terminated"
    record = parse_records(recorded.to_bytes())[0]
    assert replay(record).equal
    assert rescore(record).equal


@pytest.mark.parametrize("name", ["ledger", "slow_tool", "clerk"])
def test_the_oracle_wins_on_every_seed(name):
    env = registry.make(name)
    for index in (0, 7, 2**70, -5):
        episode = play(env, resolve("oracle", env.spec)(), TaskRef("train", index))
        assert episode.summary.success, index
    env.close()


def test_the_slow_tool_lives_in_a_worker():
    env = registry.make("slow_tool")
    assert isinstance(env, Hosted)
    env.reset(REF)
    assert "count" in json.loads(env.snapshot())["world"]["world"]
    env.close()
