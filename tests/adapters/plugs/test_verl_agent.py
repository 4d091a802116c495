"""verl-agent, by the rollout loop of a checkout with a stub actor; what needs none of it is tested without."""

from __future__ import annotations

import json
import os

import pytest

from agentenvs.adapters.plugs.verl_agent import WorldEnvs, world_projection
from tests.adapters.plugs.conftest import PEERS, ROOMS, peer, printed, run
from tests.adapters.plugs.scripts import script


def rollout(folder, env: str, split: str, url: str, actions: list, *more) -> str:
    checkout = os.environ.get("VERL_AGENT_DIR")
    if not checkout:
        pytest.skip("VERL_AGENT_DIR names no checkout of verl-agent or of a fork of it")
    python = peer("AGENTENVS_PEER_VERL", "what verl-agent needs")
    path = os.pathsep.join([checkout, ROOMS])
    program = PEERS / "verl_agent_loop.py"
    return run(python, program, env, split, url, json.dumps(actions), *more, cwd=folder, PYTHONPATH=path)


@pytest.mark.peer
@pytest.mark.parametrize("case", ["household", "household by URL", "clerk by URL"])
def test_the_rollout_loop_of_a_checkout(tmp_path, server, case):
    env, _, served = case.partition(" by ")
    split = "train" if env == "clerk" else "dev"
    actions = script(env, split, 0)
    said = rollout(tmp_path, env, split, server if served else "", actions)
    assert "paid [0.0, 0.0, 0.0, 10.0]" in said
    assert f"played {len(actions) + (env == 'household')} turns" in said  # clerk's scripts end every episode


@pytest.mark.peer
def test_the_example_of_the_page_works_as_printed(tmp_path):
    (tmp_path / "mine.py").write_text(printed("verl-agent"))
    said = rollout(tmp_path, "household", "train", "", script("household", "train", 0), tmp_path / "mine.py")
    assert "paid [0.0, 0.0, 0.0, 10.0]" in said


def test_groups_start_alike_and_go_on():
    envs = WorldEnvs("household", seed=0, env_num=2, group_n=2, split="dev", anchor="state_key")
    texts, infos = envs.reset()
    assert texts[0] == texts[1] != texts[2]
    assert [info["scenario"] for info in infos] == ["dev/0", "dev/0", "dev/1", "dev/1"]
    assert envs.anchors() == [info["state_key"] for info in infos]
    rewards, dones = [], []
    for action in [*script("household", "dev", 0), "look"]:
        _, rewards, dones, infos = envs.step([action, "look", "look", "nonsense"])
    assert dones == [True, False, False, False]
    assert rewards == [0.0] * 4
    assert [info["won"] for info in infos] == [True, False, False, False]
    assert [info["valid"] for info in infos] == [True, True, True, False]
    assert [info["scenario"] for info in envs.reset()[1]] == ["dev/2", "dev/2", "dev/3", "dev/3"]
    envs.close()


def test_a_world_of_messages_is_answered_in_json():
    envs = WorldEnvs("clerk", seed=0, env_num=1, group_n=1)
    envs.reset()
    said = '<think>Ask.</think><action>{"message": "What is the order?"}</action>'
    actions, valids = world_projection([said], envs.get_admissible_commands, spec=envs.spec)
    assert valids == [1]
    texts, *_ = envs.step(actions)
    assert texts[0].startswith("Customer: It is A-")
    envs.close()
