"""verl, by its own making of agent loops and of their tokens."""

from __future__ import annotations

import json

import pytest

from tests.adapters.plugs.conftest import PAGES, PEERS, peer, printed, run
from tests.adapters.plugs.scripts import spoken

pytestmark = pytest.mark.peer

LOOP = """- name: {name}
  _target_: agentenvs.adapters.plugs.verl.WorldAgentLoop
  env: {env}
  url: "{url}"
"""


def play(folder, loops: str, row: dict, lines: list[str]) -> str:
    (folder / "loops.yaml").write_text(loops)
    python = peer("AGENTENVS_PEER_VERL", "verl 0.9")
    return run(python, PEERS / "verl_loop.py", "loops.yaml", json.dumps(row), json.dumps(lines), cwd=folder)


@pytest.mark.parametrize("case", ["household", "household by URL", "clerk by URL"])
def test_an_agent_loop_plays(tmp_path, lines, talk, server, case):
    env, _, served = case.partition(" by ")
    split, said = ("train", talk) if env == "clerk" else ("dev", lines)
    loops = LOOP.format(name="mine", env=env, url=server if served else "")
    row = {"agent_name": "mine", "prompt": [], "extra_info": {"split": split, "index": 0}}
    assert f"played {len(said)} turns, reward 1.0" in play(tmp_path, loops, row, said)


def test_the_example_of_the_page_works_as_printed(tmp_path, server):
    loops = (PAGES / "verl.md").read_text().split("```yaml\n")[1].split("```")[0]
    made: dict = {}
    exec(printed("verl"), made)
    said = spoken("household", "train", 7)
    loops = loops.replace("http://127.0.0.1:8000", server)
    assert f"played {len(said)} turns, reward 1.0" in play(tmp_path, loops, made["rows"][7], said)
