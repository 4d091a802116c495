"""verifiers, by its own ``vf-eval`` and an OpenAI-compatible server of this machine."""

from __future__ import annotations

import itertools
import json
import os
import shlex
from pathlib import Path

import pytest

from tests.adapters.plugs.conftest import ROOT, peer, run
from tests.docs.blocks import blocks

pytestmark = pytest.mark.peer

PYTHON = "AGENTENVS_PEER_VERIFIERS"
PAGE = ROOT / "docs" / "plugs" / "verifiers.md"


def printed(language: str, place: int) -> str:
    return [block.text for block in blocks(PAGE) if block.language == language][place]


def evaluate(folder: Path, url: str, *more: str) -> list[dict]:
    python = peer(PYTHON, "verifiers 0.4")
    (folder / "household_vf.py").write_text(printed("python", 0))
    words = printed("bash", 0).replace("\\\n", " ").replace("http://127.0.0.1:9000/v1", url).split()
    command = [python.parent / words[0], *words[1:], "--output-dir", folder / "out", *more]
    run(*command, cwd=folder, MY_KEY="none", PATH=os.pathsep.join([str(python.parent), os.environ["PATH"]]))
    (found,) = (folder / "out").rglob("traces.jsonl")
    return [json.loads(line) for line in found.read_text().splitlines()]


@pytest.mark.parametrize("served", [False, True], ids=["in process", "by URL"])
def test_vf_eval_plays_and_scores(tmp_path, model, lines, server, served):
    more = ["--env.taskset.url", server] if served else []
    episodes = evaluate(tmp_path, model(lines), *more)
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


LEGACY = "AGENTENVS_PEER_VERIFIERS_03"


def test_vf_eval_of_the_older_interface_plays_and_scores(tmp_path, model, lines, server):
    python = peer(LEGACY, "verifiers 0.3")
    (tmp_path / "household_old.py").write_text(printed("python", 1))
    words = shlex.split(printed("bash", 1).replace("http://127.0.0.1:9000/v1", model(lines)))
    words[words.index("-a") + 1] = json.dumps({"count": 1, "url": server, "split": "dev"})
    run(python.parent / words[0], *words[1:], "-d", "-s", "-o", tmp_path / "out", cwd=tmp_path, MY_KEY="none")
    (found,) = (tmp_path / "out").rglob("results.jsonl")
    results = [json.loads(line) for line in found.read_text().splitlines()]
    assert [result["reward"] for result in results] == [1.0, 1.0]
