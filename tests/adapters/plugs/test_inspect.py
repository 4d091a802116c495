"""Inspect, by its own evaluation, mock model and log reader; and by its command line."""

from __future__ import annotations

import json

import pytest

from tests.adapters.plugs.conftest import ROOT, peer, run
from tests.docs.blocks import blocks

pytestmark = pytest.mark.peer

PYTHON = "AGENTENVS_PEER_INSPECT"
SCRIPT = ROOT / "tests" / "adapters" / "plugs" / "peers" / "inspect_mock.py"
PAGE = ROOT / "docs" / "plugs" / "inspect.md"


@pytest.mark.parametrize("served", [False, True], ids=["in process", "by URL"])
def test_the_verdict_is_the_score(tmp_path, lines, server, served):
    python = peer(PYTHON, "inspect-ai")
    said = run(python, SCRIPT, "household", "dev", server if served else "", json.dumps(lines), cwd=tmp_path)
    assert f"dev/0 1.0 {len(lines)} true" in said
    assert "dev/1 0.0 50 false" in said
    assert "mean 0.5" in said


def test_a_dialogue_is_played(tmp_path, server):
    python = peer(PYTHON, "inspect-ai")
    talk = ['Action: {"message": "What is the order?"}', "nonsense", 'Action: {"end": "done"}']
    said = run(python, SCRIPT, "clerk", "train", server, json.dumps(talk), cwd=tmp_path)
    assert "train/0 0.0 3 false" in said


def test_the_example_of_the_page_works_as_printed(tmp_path, model, lines):
    python = peer(PYTHON, "inspect-ai")
    found = {block.language: block.text for block in blocks(PAGE)}
    (tmp_path / "house.py").write_text(found["python"])
    command = found["bash"].replace("http://127.0.0.1:9000/v1", model(lines)).replace("inspect", "$INSPECT", 1)
    more = "-T count=1 --display none"
    run("sh", "-c", f"{command.strip()} {more}", cwd=tmp_path, INSPECT=str(python.parent / "inspect"))
    read = "import sys; from inspect_ai.log import *; print(read_eval_log(list_eval_logs('logs')[0]).results.scores)"
    assert "value=1.0" in run(python, "-c", read, cwd=tmp_path)
