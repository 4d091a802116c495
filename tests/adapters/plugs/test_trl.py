"""TRL, by two steps of its ``GRPOTrainer`` with a tiny random Qwen3."""

from __future__ import annotations

import inspect
import itertools
import json

import pytest

from agentenvs.adapters.plugs.trl import environment
from agentenvs.core.errors import EpisodeEnded
from tests.adapters.plugs.conftest import PEERS, peer, printed, run
from tests.adapters.plugs.scripts import script

PYTHON = "AGENTENVS_PEER_TRL"
SCRIPT = PEERS / "trl_grpo.py"
VERBS = {"go": ("go_to", ["receptacle"]), "open": ("open_receptacle", ["receptacle"])}


def call(said: str) -> dict:
    """Return the tool call of a command of household."""
    verb, *words = said.split()
    names = [" ".join(pair) for pair in itertools.pairwise(words) if pair[1].isdigit()]
    tool, arguments = VERBS.get(verb, (verb, ["object", "receptacle"]))
    return {"name": tool, "arguments": dict(zip(arguments, names, strict=True))}


@pytest.mark.peer
@pytest.mark.parametrize("served", [False, True], ids=["in process", "by URL"])
def test_two_steps_of_grpo(tmp_path, server, served):
    python = peer(PYTHON, "trl 1.16 and torch")
    calls = [*map(call, script("household", "dev", 0)), {"name": "look", "arguments": {}}, None]
    said = run(python, SCRIPT, "household", "dev", server if served else "", json.dumps(calls), cwd=tmp_path)
    logs, rewards = json.loads(said.splitlines()[-4]), json.loads(said.splitlines()[-2])["rewards"]
    assert "trained" in said
    assert sorted(rewards) == [0.0, 0.0, 1.0, 1.0]
    for line in logs:
        assert line["tools/call_frequency"] == len(calls) - 1
        assert line["rewards/Watched/mean"] == 0.5
        # The group that wins with the seventh call is refused the eighth.
        assert line["tools/failure_frequency"] == pytest.approx(1 / 2 / (len(calls) - 1))


@pytest.mark.peer
def test_a_dialogue_ends_once(tmp_path, server):
    python = peer(PYTHON, "trl 1.16 and torch")
    calls = [{"name": "speak", "arguments": {"text": "Which order?"}}, {"name": "finish", "arguments": {"reason": "x"}}]
    calls += [{"name": "speak", "arguments": {"text": "Hello?"}}, None]
    said = run(python, SCRIPT, "clerk", "train", server, json.dumps(calls), cwd=tmp_path)
    logs = json.loads(said.splitlines()[-4])
    assert [line["tools/failure_frequency"] for line in logs] == [pytest.approx(1 / 3)] * 2


@pytest.mark.peer
def test_the_example_of_the_page_works_as_printed(tmp_path, server):
    python = peer(PYTHON, "trl 1.16 and torch")
    run(python, PEERS / "tiny_qwen.py", tmp_path / "hub", "Qwen/Qwen3-0.6B", cwd=tmp_path)
    (tmp_path / "grpo.py").write_text(printed("trl"))
    said = run(python, "grpo.py", cwd=tmp_path, HF_HUB_CACHE=str(tmp_path / "hub"), STEPS="2", URL=server)
    assert "rewards/HouseholdWorld/mean" in said
    assert (tmp_path / "runs" / "grpo" / "checkpoint-2").is_dir()


def test_tools_say_what_they_take():
    world = environment("household")
    assert list(inspect.signature(world.go_to).parameters) == ["self", "receptacle"]
    assert "Args:" in inspect.getdoc(world.take)
    made = world()
    assert made.reset(split="dev", index=0) == made.reset(split="dev", index=0, prompt="ignored")
    for said in script("household", "dev", 0):
        one = call(said)
        getattr(made, one["name"])(**one["arguments"])
    with pytest.raises(EpisodeEnded):
        made.look()
    assert made.get_reward() == 1.0
    assert made.facts[-1]["valid"]
