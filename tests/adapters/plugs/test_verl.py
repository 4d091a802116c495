"""verl, by its own making of agent loops and of their tokens."""

from __future__ import annotations

import json

import pytest

from tests.adapters.plugs.conftest import ROOT, peer, run

PROGRAM = ROOT / "tests" / "adapters" / "plugs" / "peers" / "verl_loop.py"


@pytest.mark.peer
@pytest.mark.parametrize("served", [False, True], ids=["in process", "by URL"])
def test_an_agent_loop_plays(tmp_path, lines, server, served):
    python = peer("AGENTENVS_PEER_VERL", "verl 0.9")
    given = ("household", "dev", server if served else "", json.dumps(lines))
    assert f"played {len(lines)} turns, reward 1.0" in run(python, PROGRAM, *given, cwd=tmp_path)
