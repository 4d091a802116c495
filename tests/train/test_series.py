"""Runs that are compared: each in a process of its own, begun once, gone on with, and set against each other."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from agentenvs.core.errors import ConfigError
from agentenvs.train import series
from tests.train.test_run import small

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
TINY = {
    "steps": 2,
    "worlds.household.options.limit": 4,
    "model.vocabulary": 400,
    "shape.hidden": 32,
    "shape.layers": 2,
    "shape.heads": 2,
    "shape.feed_forward": 64,
    "shape.length": 512,
    "clone.demonstrations": 4,
    "clone.updates": 4,
    "clone.batch": 2,
    "rollout.max_turn_tokens": 6,
    "rollout.max_length": 512,
    "slots.slots": 8,
    "slots.max_length": 512,
    "sampler.groups": 2,
    "sampler.group_size": 2,
    "evaluation.count": 6,
}


def run(name: str, out: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Run a benchmark on a tiny setting; it begins its runs in processes of their own."""
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    if name == "methods":
        monkeypatch.setattr(module, "LAGS", (2,))
    changes = [f"--set={key}={value}" for key, value in TINY.items()]
    monkeypatch.setattr(sys, "argv", [name, "--out", str(out), *changes, *words])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(one for one in sys.path if one))
    module.main()
    return module


def test_the_demonstration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    out, image = tmp_path / "demo", tmp_path / "curve.svg"
    run("train_demo", out, ["--seeds", "5", "--picture", str(image)], monkeypatch)
    assert "not reached: +20 points with intervals apart in 0 of 1 seeds" in capsys.readouterr().out
    (seed,) = json.loads((out / "report.json").read_text())["seeds"]
    assert (seed["seed"], seed["steps"], seed["gain"]["first"]["episodes"]) == ("5", 2, 6)
    assert seed["cpu"]["all"] > seed["cpu"]["steps"] > 0
    assert "CPU seconds of reinforcement" in image.read_text()
    before = (out / "seed-5" / "metrics.jsonl").read_bytes()
    run("train_demo", out, ["--seeds", "5"], monkeypatch)  # all is done: nothing is begun
    assert (out / "seed-5" / "metrics.jsonl").read_bytes() == before
    with pytest.raises(ConfigError, match="begun with other settings"):
        run("train_demo", out, ["--seeds", "5", "--set", "learner.lr=1e-9"], monkeypatch)


def test_the_comparison_of_methods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "methods"
    words = ["--only", "klpo", "--audit-cpu", "0.1", "--audit-episodes", "8"]
    run("methods", out, [*words, "--plan"], monkeypatch)
    assert "lag: 1 runs, 1 not ended" in capsys.readouterr().out
    assert not out.exists()
    run("methods", out, words, monkeypatch)
    found = json.loads((out / "methods.json").read_text())
    assert [(one["method"], one["lag"]) for one in found["runs"]] == [("klpo", 0), ("klpo", 2)]
    assert all(one["tokens_sampled"] > 0 and one["informative"] is not None for one in found["runs"])
    assert found["failed"] == {}
    assert (out / "audit" / "credit.json").exists()
    assert "| klpo | 0 | 2 |" in capsys.readouterr().out
    assert "klpo, seed 0, lag 2" in (out / "methods.svg").read_text()


def test_every_method_is_compared_or_said_to_be_left_out() -> None:
    spec = importlib.util.spec_from_file_location("benchmarks_methods", BENCHMARKS / "methods.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    listed = module.entries(150, 300, (0, 1, 2), ())
    from agentenvs.train.methods import recipes

    assert {one.method for one in listed} | set(module.LEFT_OUT) == set(recipes())
    assert len({one.name for one in listed}) == len(listed)
    named = [one for one in listed if one.series == "named beforehand"]
    assert len(named) == 15


def test_two_processes_never_train_one_run(tmp_path: Path) -> None:
    cell = series.Cell("one", small())
    assert not series._begun(cell, tmp_path / "one")
    with (tmp_path / "one" / ".lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert series._start(cell, tmp_path / "one") is None


def test_a_run_that_fails_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(one for one in sys.path if one))
    cell = series.Cell("bad", small(method="nothing"))
    failed = series.play([cell], tmp_path)
    assert "no method 'nothing'" in failed["bad"]


def test_evaluations_are_compared_scenario_by_scenario() -> None:
    before = {("w", "dev", index): index < 2 for index in range(10)}
    after = {("w", "dev", index): index > 0 for index in range(10)}
    gain = series.gain(before, after)
    assert (gain.first.wins, gain.second.wins) == (2, 9)
    assert gain.value == pytest.approx(0.7)
    assert gain.low < 0.7 < gain.high
    assert gain.apart
    assert str(gain.first) == "20.0 (5.7 to 51.0)"
    with pytest.raises(ConfigError, match="different scenarios"):
        series.gain(before, {})
