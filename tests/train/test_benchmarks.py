"""The benchmarks of the trainer run, on shapes that are small enough for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.peers import peer_python

ROOT = Path(__file__).resolve().parents[2]


def test_the_script_for_a_gpu_runs_on_a_cpu(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    sizes = ["--shape", "tiny", "--device", "cpu", "--rows", "4", "--turns", "2", "--length", "512", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), *sizes],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    found = {row["name"]: row["value"] for row in json.loads(out.read_text())["results"]}
    assert {"plain: sampled", "plain: trained", "plain: MFU", "iteration of 4 episodes: whole"} <= set(found)
    assert all(value > 0 for value in found.values())
    assert "| plain: trained |" in done.stdout


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_trainer_and_trl_play_and_train_the_same(tmp_path: Path) -> None:
    peer_python("AGENTENVS_PEER_TRL", "trl and agentenvs")
    out = tmp_path / "trainer.jsonl"
    sizes = ["--turns", "3", "--episodes", "2", "--steps", "1", "--out", str(out)]
    command = [sys.executable, str(ROOT / "benchmarks" / "trainer.py"), *sizes]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(2):  # the second time there is nothing left to do
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stderr
    trl, ours = map(json.loads, out.read_text().splitlines())
    assert (trl["side"], ours["side"]) == ("TRL", "ours")
    assert (trl["turns"], trl["sampled"]) == (ours["turns"], ours["sampled"])
    assert "| TRL |" in done.stdout
