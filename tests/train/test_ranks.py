"""Two processes train as one does: losses, gradients, scores, checkpoints, and a whole run."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentenvs.train.run import resume, train
from tests.train import ranked
from tests.train.test_run import lines, small

pytestmark = pytest.mark.timeout(900)  # two processes wait for each other again and again: slow on a busy machine


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes did, as torchrun begins them."""
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = str(one.getsockname()[1])
    surroundings = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.train.ranked", str(folder)],
            env={**surroundings, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [child.communicate(timeout=500)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], "\n".join(said)
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return ranked.told(tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize("what", [*ranked.AGGREGATIONS, "lora"])
def test_losses_gradients_and_scores_are_those_of_one_process(what: str, two: Path, one: dict[str, Any]) -> None:
    found = json.loads((two / "told.json").read_text())
    for name, wanted in one[what].items():
        if name == "old":
            assert [pytest.approx(some, abs=1e-5) for some in wanted] == found[what][name]
        else:
            assert found[what][name] == pytest.approx(wanted, abs=1e-5, rel=1e-5), name
    assert found["scores"][1] == pytest.approx(one["scores"][1], abs=1e-5)
    assert found["weights"] == pytest.approx(one["weights"], abs=1e-4)


def test_a_checkpoint_of_two_processes_goes_on_in_one(two: Path, one: dict[str, Any]) -> None:
    alone = ranked.engine()
    alone.load(two / "saved")
    assert [ranked.stepped(alone)["loss"] for _ in range(2)] == pytest.approx(one["next"], abs=1e-5)


def test_a_run_of_two_processes_is_that_of_one_and_goes_on_in_one(two: Path, tmp_path: Path) -> None:
    train(small(sampler={"groups": 3, "group_size": 2}), tmp_path / "run")
    wanted, found = lines(tmp_path / "run"), lines(two / "run")
    assert [line["kind"] for line in found] == [line["kind"] for line in wanted]
    for mine, theirs in zip(wanted, found, strict=True):
        assert theirs == pytest.approx(mine, abs=1e-4)
    cut = tmp_path / "cut"
    shutil.copytree(two / "run", cut)
    shutil.rmtree(cut / "checkpoints" / "step-4")
    resume(cut)
    assert lines(cut)[-1] == pytest.approx(wanted[-1], abs=1e-4)
