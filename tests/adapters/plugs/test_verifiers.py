"""verifiers, by its own ``vf-eval`` and an OpenAI-compatible server of this machine."""

from __future__ import annotations

import itertools
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.plugs.conftest import peer, printed, run

pytestmark = pytest.mark.peer

PYTHON = "AGENTENVS_PEER_VERIFIERS"
LEGACY = "AGENTENVS_PEER_VERIFIERS_03"


def evaluate(folder: Path, model: str, /, **changed: str) -> list[dict]:
    """Run the command of the page, with other values of its options."""
    python = peer(PYTHON, "verifiers 0.4")
    (folder / "household_vf.py").write_text(printed("verifiers"))
    command = printed("verifiers", "bash").replace("\\\n", " ").replace("http://127.0.0.1:9000/v1", model)
    words = [*command.split(), "--output-dir", str(folder / "out")]
    for name, value in changed.items():
        words += [f"--env.taskset.{name}", value]
    path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
    run(python.parent / words[0], *words[1:], cwd=folder, MY_KEY="none", PATH=path)
    (found,) = (folder / "out").rglob("traces.jsonl")
    return [json.loads(line) for line in found.read_text().splitlines()]


@pytest.mark.parametrize("served", [False, True], ids=["in process", "by URL"])
def test_vf_eval_plays_and_scores(tmp_path, model, lines, server, served):
    episodes = evaluate(tmp_path, model(lines), **({"url": server} if served else {}))
    assert len(episodes) == 2
    for episode in episodes:
        (trace,) = episode["traces"]
        assert trace["errors"] == []
        assert trace["rewards"]["verdict"]["score"] == 1.0
        assert trace["metrics"]["success"] == 1.0
        turns = trace["info"]["agentenvs"]["turns"]
        assert [turn["valid"] for turn in turns] == [True] * len(lines)
        assert all(after["state_before"] == turn["state_key"] for turn, after in itertools.pairwise(turns))
        assert turns[0]["potential"] < turns[-2]["potential"]


def test_vf_eval_plays_a_dialogue(tmp_path, model, talk, server):
    for episode in evaluate(tmp_path, model(talk), url=server, env="clerk", split="train"):
        (trace,) = episode["traces"]
        assert trace["rewards"]["verdict"]["score"] == 1.0
        assert len(trace["info"]["agentenvs"]["turns"]) == len(talk)


def older(folder: Path, model: str, /, **arguments: Any) -> list[dict]:
    """Run the command of the page for the older interface; with arguments other than those printed, where given."""
    python = peer(LEGACY, "verifiers 0.3")
    (folder / "household_old.py").write_text(printed("verifiers", place=1))
    words = shlex.split(printed("verifiers", "bash", 1).replace("http://127.0.0.1:9000/v1", model))
    place = words.index("-a") + 1
    words[place] = json.dumps({**json.loads(words[place]), **arguments})
    run(python.parent / words[0], *words[1:], "-d", "-s", "-o", folder / "out", cwd=folder, MY_KEY="none")
    (found,) = (folder / "out").rglob("results.jsonl")
    return [json.loads(line) for line in found.read_text().splitlines()]


@pytest.mark.parametrize("case", ["household", "household by URL", "clerk by URL"])
def test_vf_eval_of_the_older_interface_plays_and_scores(tmp_path, model, lines, talk, server, case):
    env, _, served = case.partition(" by ")
    more = {"env": env, "split": "train"} if env == "clerk" else {}
    results = older(tmp_path, model(talk if env == "clerk" else lines), **more, **({"url": server} if served else {}))
    assert [result["reward"] for result in results] == [1.0, 1.0]
