"""Runs on disk: cloning, steps, checkpoints, and the way back after a kill; what makes no sense is refused in words."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentenvs.core.errors import ConfigError
from agentenvs.train.clock import Clock
from agentenvs.train.config import TrainConfig, from_form
from agentenvs.train.engine.critic import Critic, CriticConfig
from agentenvs.train.engine.learner import LearnerConfig
from agentenvs.train.engine.torch_engine import SamplerConfig, TorchEngine
from agentenvs.train.pipeline import assemble
from agentenvs.train.plugins import NeedError
from agentenvs.train.run import end_of, resume, train
from agentenvs.train.trainer import DriftError
from tests.train.games import episodes, tiny

TIMES = {"cpu_seconds", "cpu_steps", "seconds", "seconds_env", "seconds_model", "seconds_rollout", "seconds_train"}


def small(**changes: Any) -> TrainConfig:
    """Return a run of a few seconds on the smallest household."""
    form: dict[str, Any] = {
        "name": "small",
        "steps": 4,
        "worlds": {"household": {"env": "household", "options": {"difficulty": "easiest", "limit": 4}}},
        "shape": {"hidden": 32, "layers": 2, "heads": 2, "feed_forward": 64, "length": 512},
        "model": {"vocabulary": 400, "threads": 1},
        "rollout": {"max_turn_tokens": 6, "max_length": 512},
        "slots": {"slots": 8, "max_length": 512},
        "clone": {"demonstrations": 4, "updates": 4, "batch": 2},
        "sampler": {"groups": 2, "group_size": 2, "minibatches": 2},
        "evaluation": {"every": 0},
        "save": {"every": 2, "keep": 9},
    }
    for name, value in changes.items():
        form[name] = {**form.get(name, {}), **value} if isinstance(value, dict) else value
    return from_form(form)


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of a run without its times."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{name: value for name, value in line.items() if name not in TIMES} for line in found]


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was not disturbed, by a method that carries something from step to step."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(small(method="ppo"), folder)
    return folder


def test_a_run_leaves_metrics_checkpoints_and_a_model(whole: Path) -> None:
    kinds = [line["kind"] for line in lines(whole)]
    assert kinds == ["clone", "clone", "step", "step", "step", "step"]
    assert sorted(path.name for path in (whole / "checkpoints").iterdir()) == ["step-0", "step-2", "step-4"]
    assert all(line["gap"] < 1e-4 for line in lines(whole) if line["kind"] == "step")
    assert weights(whole)


def test_a_run_replays_bit_for_bit(whole: Path, tmp_path: Path) -> None:
    train(small(method="ppo"), tmp_path / "again")
    assert lines(tmp_path / "again") == lines(whole)
    assert weights(tmp_path / "again") == weights(whole)


def test_a_run_goes_on_as_if_nothing_had_been(whole: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(whole, cut)
    shutil.rmtree(cut / "checkpoints" / "step-4")
    shutil.rmtree(cut / "model")
    with (cut / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind": "step", "ste')  # killed in the middle of a line
    resume(cut)
    assert lines(cut) == lines(whole)
    assert weights(cut) == weights(whole)
    told, before = cpu(cut), cpu(whole)
    assert told[:4] == before[:4]  # what the checkpoint of step 2 knew
    assert before[3] < told[4] < told[5] < before[3] + 60


def cpu(folder: Path) -> list[float]:
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line)["cpu_seconds"] for line in text.splitlines()]


def test_a_clock_counts_on_from_where_it_stood() -> None:
    clock = Clock()
    clock.load_state_dict({"seconds": 1000.0, "steps": 500.0})
    first = clock.seconds()
    sum(range(3_000_000))
    assert 1000.0 <= first < clock.seconds() < 1100.0
    assert clock.state_dict()["steps"] == 500.0


def test_a_run_ends_when_its_seconds_are_spent(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    evaluation = {"every": 100, "count": 2, "start": False}
    train(small(budget_cpu=1e-6, evaluation=evaluation, clone={"demonstrations": 0}), folder)
    before = lines(folder)
    assert [line["kind"] for line in before] == ["step", "eval"]
    end = end_of(folder)
    assert end is not None
    assert (end["why"], end["step"]) == ("budget_cpu: 1e-06 CPU seconds of steps are spent", 1)
    rows = json.loads((folder / "evaluations" / "step-1.json").read_text())["episodes"]
    assert [row["index"] for row in rows] == [0, 1]
    resume(folder)  # it has ended, and no step is added
    assert lines(folder) == before


def test_a_run_that_is_killed_goes_on(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    code = f"""
from pathlib import Path
from tests.train.test_run import small
from agentenvs.train.run import train
train(small(method="ppo"), Path({str(folder)!r}))
"""
    child = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    deadline = time.monotonic() + 240
    while not (folder / "checkpoints" / "step-2").exists() and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    resume(folder)
    assert lines(folder) == lines(whole)
    assert weights(folder) == weights(whole)


@pytest.mark.parametrize("method", ["gigpo", "iapo", "wpm", "vetta", "spo++", "klpo", "proximal-kl", "opdvr"])
def test_methods_run_on_a_world(method: str, tmp_path: Path) -> None:
    sampler = {"groups": 2, "group_size": 2}
    train(small(method=method, steps=2, clone={"demonstrations": 0}, sampler=sampler), tmp_path / "run")
    assert [line["kind"] for line in lines(tmp_path / "run")] == ["step", "step"]
    assert all(np.isfinite(line["loss"]) for line in lines(tmp_path / "run"))


def test_actions_are_sampled_among_the_legal_ones(tmp_path: Path) -> None:
    train(small(steps=1, clone={"demonstrations": 0}, rollout={"constrained": True}), tmp_path / "run")
    (line,) = lines(tmp_path / "run")
    assert line["valid"] == 1.0
    assert line["gap"] < 1e-4


def test_old_episodes_are_dropped_and_counted(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"lag": {"lag": 2, "max_lag": 1}, "slots": {"keep_versions": 4}, "method": "klpo"}
    train(small(**changes), tmp_path / "run")
    assert [line["dropped"] for line in lines(tmp_path / "run") if line["kind"] == "step"][-1] == 4.0


def test_evaluation_is_on_scenarios_of_its_own(tmp_path: Path) -> None:
    config = small(evaluation={"every": 2, "count": 3}, steps=2, clone={"demonstrations": 0})
    train(config, tmp_path / "run")
    found = [line for line in lines(tmp_path / "run") if line["kind"] == "eval"]
    assert [line["step"] for line in found] == [0, 2]
    assert all(0 <= line["eval_low"] <= line["eval_success"] <= line["eval_high"] <= 1 for line in found)
    with pytest.raises(ConfigError, match="trained on"):
        train(small(evaluation={"every": 1, "split": "train"}), tmp_path / "other")


def test_a_run_is_not_begun_twice(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has a run"):
        train(small(), whole)
    with pytest.raises(ConfigError, match="has no run"):
        resume(tmp_path)


def test_a_need_that_is_not_met_stops_a_run_before_it_begins() -> None:
    with pytest.raises(NeedError, match=r"needs turn\.state_key"):
        assemble(small(method="gigpo"), [])


def test_a_sampler_that_drifts_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(engine: TorchEngine) -> int:
        engine.version += 1
        engine._published[engine.version] = engine._published[engine.used]
        engine.used = engine.version
        return engine.version

    monkeypatch.setattr(TorchEngine, "publish", stale)
    settings = {"demonstrations": 8, "updates": 30, "batch": 4}
    with pytest.raises(DriftError, match="nats a token"):
        train(small(clone=settings, steps=1), tmp_path / "run")


def test_a_critic_learns_what_it_is_told() -> None:
    made = episodes(8)
    critic = Critic(tiny(), CriticConfig(lr=1e-2, clip=100.0, epochs=1, token_budget=64))
    from agentenvs.train.batch import Batch

    first = last = 0.0
    for round_ in range(40):
        critic.annotate(made)
        for episode in made:
            for segment in episode.segments:
                segment.streams["value_target"] = np.full(len(segment), 0.7, np.float32)
            for turn in episode.turns:
                turn.signals["value_target"] = -0.3
        last = critic.learn(Batch(made))["loss"]
        first = last if round_ == 0 else first
    assert last < first / 20
    critic.annotate(made)
    assert np.mean([turn.signals["value"] for one in made for turn in one.turns]) == pytest.approx(-0.3, abs=0.1)


def test_weights_are_kept_under_a_name() -> None:
    engine = TorchEngine(tiny(), SamplerConfig(slots=2, max_length=64), LearnerConfig())
    assert engine.keeps("start") is False
    engine.keep("start")
    ids = [np.array([1, 2, 3], np.int32)]
    assert engine.score(ids, "start")[0].tolist() == engine.score(ids)[0].tolist()
    with pytest.raises(ConfigError, match="no weights are kept"):
        engine.score(ids, "missing")
