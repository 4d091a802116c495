"""Large run folders and large damage in the index of runs: bounded memory, every line read or named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core.canon import canonical_bytes, digest
from agentenvs.harness.run import RunConfig, evaluate
from agentenvs.harness.runs import asking, exporting, indexing, opening
from agentenvs.harness.runs.asking import Filter
from tests.harness import playroom

EPISODES = 10_000
MANY = 40_000

MEASURED = """
import re, sys
from pathlib import Path
from agentenvs.harness.runs import asking, exporting, indexing, opening
from agentenvs.harness.runs.asking import Filter
folder = Path(sys.argv[1])
# Of this program alone: what getrusage says may be its parent's.
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) >> 10
with opening.opened(str(folder / "runs.db")) as engine:
    before = peak()
    came = indexing.index(engine, folder / "run")
    count = exporting.to_csv(asking.rows(engine, Filter()), folder / "all.csv")
    print(came.episodes, len(came.damage), count, peak() - before)
"""


def _stretched(tmp_path: Path, count: int) -> tuple[Path, list[dict[str, Any]]]:
    """Return a run of many episodes, whose lines stand in the order in which they ended: not that of their numbers."""
    policy = f"{playroom.__name__}:Climber"
    folder = evaluate(RunConfig(env="stairs", policy=policy, episodes=1, out=tmp_path / "run")).folder
    first = json.loads((folder / "episodes.jsonl").read_text())
    rows = [{**first, "number": number, "index": number} for number in range(count)]
    lines = [canonical_bytes(row) + b"\n" for row in rows]
    (folder / "episodes.jsonl").write_bytes(b"".join(lines[1::2] + lines[::2]))
    made = json.loads((folder / "manifest.json").read_text())
    made["episode_table_digest"] = digest(rows)
    (folder / "manifest.json").write_bytes(canonical_bytes(made) + b"\n")
    return folder, rows


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="tells no peak of memory")
def test_many_episodes_are_indexed_and_exported_in_little_memory(tmp_path: Path) -> None:
    _stretched(tmp_path, MANY)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", MEASURED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    episodes, damage, count, grown = map(int, done.stdout.split())
    assert (episodes, damage, count) == (MANY, 0, MANY)
    assert grown < 64, grown  # MiB, of which the table itself is 17; all its rows at once would be 95


def _junk(line: dict[str, Any], number: int) -> bytes:
    """Return a line that is none, of a dozen kinds."""
    whole = canonical_bytes(line)
    kinds = (
        whole[: len(whole) // 2],
        b"",
        b"[" * 10_000,
        b"\xff\xfe",
        canonical_bytes({**line, "number": -1}),
        canonical_bytes({**line, "number": number // 12 * 12}),  # of an episode that is there
        canonical_bytes({**line, "turns": "many"}),
        canonical_bytes({**line, "usage": None}),
        canonical_bytes({**line, "split": "x" * 1_000}),
        canonical_bytes({**line, "index": 2**70}),
        whole.replace(b'"reward":', b'"reward":1e999,"was":'),
    )
    return kinds[number % 12 - 1]


def test_of_ten_thousand_lines_each_is_read_or_named(tmp_path: Path) -> None:
    folder, rows = _stretched(tmp_path, EPISODES)
    lines = [_junk(row, number) if number % 12 else canonical_bytes(row) for number, row in enumerate(rows)]
    (folder / "episodes.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    good = -(-EPISODES // 12)
    with opening.opened(str(tmp_path / "runs.db")) as engine:
        came = indexing.index(engine, folder)
        assert came.episodes == good
        assert len(came.damage) == EPISODES - good + 1  # and that it is not what the manifest was made over
        named = [place.line for place in came.damage]
        assert sorted(named)[1:] == [number + 1 for number in range(EPISODES) if number % 12]
        again = indexing.index(engine, folder)
        assert (again.what, again.episodes) == ("unchanged", good)
        assert exporting.to_csv(asking.rows(engine, Filter()), tmp_path / "all.csv") == good
        (folder / "episodes.jsonl").write_bytes(b"".join(canonical_bytes(row) + b"\n" for row in rows))
        mended = indexing.index(engine, folder)
        assert (mended.what, mended.episodes, mended.damage) == ("changed", EPISODES, ())


@pytest.mark.parametrize("last", [b'{"number":', b'{"number":2}'])
def test_a_run_that_grows_while_it_is_read_is_read_as_far_as_its_lines_are_whole(tmp_path: Path, last: bytes) -> None:
    folder, rows = _stretched(tmp_path, 1_000)
    (folder / "manifest.json").unlink()
    lines = [canonical_bytes(row) + b"\n" for row in rows]
    with opening.opened(str(tmp_path / "runs.db")) as engine:
        for count in (0, 1, 999, 1_000):
            (folder / "episodes.jsonl").write_bytes(b"".join(lines[:count]) + last)
            came = indexing.index(engine, folder)
            assert (came.episodes, came.damage) == (count, ())
