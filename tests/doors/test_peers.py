"""The doors, tried by the unmodified clients of the other side; each in a Python of its own, named by a variable.

These packages cannot live in one environment with each other, nor with what the tests here need.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import blocks

PEERS = Path(__file__).parent / "peers"
PAGES = Path(__file__).parents[2] / "docs" / "plugs"

OPENENV = "AGENTENVS_PEER_PYTHON"
OPENENV_CORE = "AGENTENVS_PEER_OPENENV_CORE"
ORS = "AGENTENVS_PEER_ORS"
MCP = "AGENTENVS_PEER_MCP"
TRL = "AGENTENVS_PEER_TRL"

NEEDED = {
    OPENENV: "openenv 0.10",
    OPENENV_CORE: "openenv-core 0.3",
    ORS: "openreward 0.1",
    MCP: "mcp 2",
    TRL: "trl 1.16 and openreward",
}

pytestmark = pytest.mark.peer


def peer(variable: str) -> str:
    found = os.environ.get(variable)
    if not found:
        pytest.skip(f"{variable} names no Python with {NEEDED[variable]} in it")
    return found


def run(*command: Any) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("variable", [OPENENV, OPENENV_CORE])
def test_the_stock_clients_of_openenv_play(server, variable):
    assert "played" in run(peer(variable), PEERS / "openenv_clients.py", server.url)


def test_the_checks_of_openenv_pass(server):
    assert "checked" in run(peer(OPENENV), PEERS / "openenv_checks.py", server.url)


def test_the_client_of_the_open_reward_standard_plays(server):
    assert "played" in run(peer(ORS), PEERS / "ors_client.py", server.url)


def test_trl_reads_it_as_an_open_reward_spec(server):
    assert "played" in run(peer(TRL), PEERS / "trl_spec.py", server.url)


@pytest.mark.parametrize("variable", [MCP, OPENENV], ids=["mcp 2", "mcp 1"])
@pytest.mark.parametrize("world", ["clerk", "household"])
def test_the_official_mcp_client_plays(server, variable, world):
    python = peer(variable)
    keys = [server.make(world, seed=seed)["agent_key"] for seed in (1, 2)]
    urls = [f"{server.url}/v1/agent/{key}/mcp" for key in keys]
    assert "played" in run(python, PEERS / "mcp_client.py", world, *urls)


PRINTED = [("openenv", OPENENV, ""), ("openenv", OPENENV_CORE, ""), ("ors", ORS, "openreward"), ("ors", TRL, "trl")]


@pytest.mark.parametrize(("page", "variable", "package"), PRINTED)
def test_the_examples_of_a_page_work_as_printed(server, page, variable, package):
    python = peer(variable)
    found = [block for block in blocks(PAGES / f"{page}.md") if block.language == "python"]
    mine = [block for block in found if f"from {package}" in block.text]
    assert mine
    for block in mine:
        run(python, "-c", re.sub(r"http://127\.0\.0\.1:8000", server.url, block.text))
