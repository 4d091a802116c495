"""Trainers that hand over words: SkyRL-Gym, GEM and the Tinker cookbook, by their own registries and loops."""

from __future__ import annotations

import json

import pytest

from tests.adapters.plugs.conftest import ROOT, peer, run

pytestmark = pytest.mark.peer

PEERS = ROOT / "tests" / "adapters" / "plugs" / "peers"
SERVED = pytest.mark.parametrize("served", [False, True], ids=["in process", "by URL"])
TALK = ['Action: {"message": "What is the order?"}', "nonsense", 'Action: {"end": "done"}']


def play(program: str, variable: str, needs: str, cwd, *arguments: str) -> str:
    return run(peer(variable, needs), PEERS / program, *arguments, cwd=cwd)


@SERVED
def test_skyrl_gym(tmp_path, lines, server, served):
    given = ("household", "dev", server if served else "", json.dumps(lines))
    said = play("skyrl.py", "AGENTENVS_PEER_SKYRL", "skyrl-gym", tmp_path, *given)
    assert "played agentenvs [1.0, 1.0, 0.0, 0.0]" in said


@SERVED
def test_gem(tmp_path, lines, server, served):
    given = ("household", "dev", server if served else "", json.dumps(lines))
    assert "alone 1.0" in play("gem_envs.py", "AGENTENVS_PEER_GEM", "gem-llm", tmp_path, *given)


@SERVED
def test_the_tinker_cookbook(tmp_path, lines, server, served):
    given = ("household", "dev", server if served else "", json.dumps(lines))
    assert "played [1.0, 1.0]" in play(
        "tinker_rollout.py", "AGENTENVS_PEER_TINKER", "tinker-cookbook", tmp_path, *given
    )
    given = ("clerk", "train", server, json.dumps(TALK))
    assert "played [0.0, 0.0]" in play(
        "tinker_rollout.py", "AGENTENVS_PEER_TINKER", "tinker-cookbook", tmp_path, *given
    )
