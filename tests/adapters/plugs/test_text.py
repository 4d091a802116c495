"""Trainers that hand over words: SkyRL-Gym, GEM and the Tinker cookbook, by their own registries and loops."""

from __future__ import annotations

import json

import pytest

from tests.adapters.plugs.conftest import PEERS, peer, printed, run

pytestmark = pytest.mark.peer

SKYRL = ("AGENTENVS_PEER_SKYRL", "skyrl-gym")
GEM = ("AGENTENVS_PEER_GEM", "gem-llm")
TINKER = ("AGENTENVS_PEER_TINKER", "tinker-cookbook")


@pytest.fixture(params=["household", "household by URL", "clerk by URL"])
def played(request, server, lines, talk) -> tuple[str, str, str, str]:
    """World, split, server, and what wins its first episode."""
    world, _, served = request.param.partition(" by ")
    split, said = ("train", talk) if world == "clerk" else ("dev", lines)
    return world, split, server if served else "", json.dumps(said)


def test_skyrl_gym(tmp_path, played):
    said = run(peer(*SKYRL), PEERS / "skyrl.py", *played, cwd=tmp_path)
    assert "played agentenvs [1.0, 1.0, 0.0, 0.0]" in said


def test_gem(tmp_path, played):
    assert "alone 1.0" in run(peer(*GEM), PEERS / "gem_envs.py", *played, cwd=tmp_path)


def test_the_tinker_cookbook(tmp_path, played):
    assert "played [1.0, 1.0]" in run(peer(*TINKER), PEERS / "tinker_rollout.py", *played, cwd=tmp_path)


@pytest.mark.parametrize(("page", "python"), [("skyrl", SKYRL), ("gem", GEM)], ids=["skyrl", "gem"])
def test_the_example_of_the_page_works_as_printed(tmp_path, page, python):
    assert "You are" in run(peer(*python), "-c", printed(page), cwd=tmp_path)


def test_the_example_of_tinker_works_as_printed(tmp_path):
    python = peer(*TINKER)
    run(python, PEERS / "tiny_qwen.py", tmp_path / "hub", "Qwen/Qwen3-8B", "tokenizer", cwd=tmp_path)
    looked = "\nprint(len(data), len(groups), type(groups[0]).__name__)"
    said = run(python, "-c", printed("tinker") + looked, cwd=tmp_path, HF_HUB_CACHE=str(tmp_path / "hub"))
    assert said.split() == ["32", "32", "WorldGroupBuilder"]
