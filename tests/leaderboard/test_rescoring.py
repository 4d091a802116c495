"""When the scoring changes, every entry is scored again from its records, and both scores are shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORLD = """
from agentenvs.core.simple import Ended, world
from agentenvs.core.spec import SplitSpec


@world("me/Count-v0", steps=6, splits=(SplitSpec("test", 6),))
class Count:
    "Say 'up' as often as you like, then 'done'."

    def task(rng):
        return {{"goal": 1 + rng.below(2)}}

    def reset(self, task):
        self.said, self.goal = 0, task["goal"]
        return f"Count to {{self.goal}}."

    def step(self, text):
        if text == "done":
            return Ended("So be it.")
        self.said += 1
        return f"{{self.said}}"

    def score(self):
        return float(self.said {sign} self.goal)
"""

PLAYER = """
class Two:
    def reset(self, spec, task):
        self.left = 2

    def act(self, observation):
        self.left -= 1
        return "up" if self.left >= 0 else "done"
"""

META = "Metadata-Version: 2.1\nName: counting\nVersion: 1\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of somebody's own that brings an environment, as pip would install it."""
    folder = tmp_path / "site"
    told = folder / "counting-1.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text(META)
    (told / "entry_points.txt").write_text("[agentenvs.envs]\ncount = counting:SPEC\n")
    write(folder, ">=")
    (folder / "players.py").write_text(PLAYER)
    return folder


def write(folder: Path, sign: str) -> None:
    (folder / "counting.py").write_text(WORLD.format(sign=sign) + "\n\nSPEC = Count.spec\n")


def cli(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    roots = os.pathsep.join([str(package), *(path for path in sys.path if path)])
    command = [sys.executable, "-B", "-m", "agentenvs.cli", *arguments]
    surroundings = {**os.environ, "PYTHONPATH": roots}
    return subprocess.run(
        command, cwd=package.parent, env=surroundings, capture_output=True, text=True, check=False, timeout=300
    )


def test_entries_are_scored_again_on_a_new_board(package: Path):
    run = ("eval", "me/Count-v0", "--policy", "players:Two", "--split", "test", "--out", "run", "-q")
    assert cli(package, *run).returncode == 0
    made = cli(package, "leaderboard", "create", "me/Count-v0", "--split", "test", "--anchors", "none")
    assert made.returncode == 0, made.stderr
    old = made.stdout.strip()
    sent = cli(package, "leaderboard", "submit", "run", "--board", "board", "--name", "Ada")
    assert sent.returncode == 0, sent.stderr
    same = cli(package, "leaderboard", "rescore", old)
    assert (same.returncode, "there is nothing to score again" in same.stderr) == (2, True)

    write(package, "==")
    again = cli(package, "leaderboard", "rescore", old)
    assert again.returncode == 0, again.stderr
    new = again.stdout.split()[0]
    assert "1 entries, 1 with another score than before" in again.stdout
    assert new != old

    boards = {board["id"]: board for board in json.loads(cli(package, "leaderboard", "ls", "--json").stdout)}
    assert (boards[old]["open"], boards[old]["successor"], boards[new]["open"]) == (False, new, True)
    assert cli(package, "leaderboard", "build", "--out", "site2").returncode == 0
    (row,) = json.loads((package.parent / "site2" / "boards" / new / "entries.json").read_text())["entries"]
    assert row["successes"] < row["before"]["successes"]
    assert (
        f"was {100 * row['before']['rate']:.1f}"
        in (package.parent / "site2" / "boards" / new / "index.html").read_text()
    )
    closed = cli(package, "leaderboard", "submit", "run", "--board", "board", "--on", old, "--name", "Bob")
    assert (closed.returncode, "LB502" in closed.stderr) == (1, True)
    stale = cli(package, "leaderboard", "submit", "run", "--board", "board", "--on", new, "--name", "Bob")
    assert stale.returncode == 1
    assert "LB302" in stale.stderr  # scored by the old code: play it again
