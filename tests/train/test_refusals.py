"""What makes no sense is refused in words before anything runs, and what breaks on the way says what can be done."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from agentenvs.core.errors import ConfigError, DataError, ServiceError, UserError
from agentenvs.core.task import TaskRef
from agentenvs.harness.folder import held
from agentenvs.train.batch import Batch
from agentenvs.train.config import read
from agentenvs.train.engine.packing import pack
from agentenvs.train.engine.torch_engine import TorchEngine
from agentenvs.train.interfaces import samplers
from agentenvs.train.opening import find
from agentenvs.train.records import Episode, EpisodeWriter, Role
from agentenvs.train.run import resume, train
from agentenvs.train.trainer import DriftError
from agentenvs.train.worlds import World
from tests.train.test_run import small

QUICK: dict[str, Any] = {"clone": {"demonstrations": 0}, "sampler": {"groups": 2, "group_size": 2, "minibatches": 1}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two steps, with two checkpoints."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(small(**QUICK, steps=2, save={"every": 1}), folder)
    return folder


@pytest.mark.parametrize(
    "change",
    [
        "seed=-1",
        "steps=-1",
        "learner.lr=-1.0",
        "learner.betas=[0.9]",
        "learner.betas=[0.9, 'a']",
        "learner.precision='float16'",
        "learner.constant_length=0.0",
        "learner.token_budget=1000",
        "slots.slots=0",
        "slots.keep_versions=0",
        "rollout.max_turn_tokens=0",
        "rollout.temperature=-1.0",
        "rollout.max_length=4096",
        "sampler=3",
        "evaluation.count=0",
        "save.keep=0",
        "clone.batch=0",
        "model.threads=-2",
        "lag.lag=2",
        "worlds.household.count=0",
        "worlds.household.weight=0.0",
        "worlds.household.options=3",
        "shape.layers=0",
        "method_settings=3",
        "method_settings.ppo-clip=3",
        "servers={urls = [3]}",
        "servers={urls = ['http://127.0.0.1:1']}\nrollout.constrained=true",
    ],
)
def test_settings_that_make_no_sense_are_refused(change: str, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[worlds.household]\n", encoding="utf-8")
    with pytest.raises(ConfigError):
        read(path, change.split("\n"))


@pytest.mark.parametrize(
    ("plugin", "settings"), [("horizon", {"horizon": 0}), ("groups", {"groups": 0}), ("epochs", {"epochs": -1})]
)
def test_a_sampler_of_nothing_is_refused(plugin: str, settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=plugin):
        samplers.make("in-order", settings)


@pytest.mark.parametrize("device", ["tpu", "nonsense"])
def test_a_device_that_is_not_there_is_named(device: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=device):
        train(small(**QUICK, model={"device": device}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_model_is_not_asked_to_read_more_than_it_can(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="reads 512 tokens"):
        train(small(**QUICK, slots={"max_length": 600}), tmp_path / "run")


def test_a_first_prompt_without_room_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="room for a turn"):
        train(small(**QUICK, rollout={"max_length": 40}), tmp_path / "run")


def test_a_world_that_loses_everything_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = lambda world, slot, ref: "it is on fire"  # noqa: E731
    config = small(**QUICK)
    monkeypatch.setattr("agentenvs.train.run._said", lambda config, worlds: ["a", "b"])
    monkeypatch.setattr(World, "begin", lost)
    with pytest.raises(ServiceError, match="all 4 episodes were lost"):
        train(config, tmp_path / "run")


def test_weights_that_are_no_numbers_stop_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = TorchEngine.train

    def broken(engine: TorchEngine, *arguments: Any, **more: Any) -> Any:
        found = keep(engine, *arguments, **more)
        found.metrics["gap"] = float("nan")
        return found

    monkeypatch.setattr(TorchEngine, "train", broken)
    with pytest.raises(DriftError, match="no numbers"):
        train(small(**QUICK), tmp_path / "run")
    assert issubclass(DriftError, UserError)


# ---- folders -------------------------------------------------------------------------------------------------------


def test_two_runs_do_not_share_a_folder(run: Path, tmp_path: Path) -> None:
    with held(run), pytest.raises(ConfigError, match="another process"):
        resume(run)
    (tmp_path / "new").mkdir()
    with held(tmp_path / "new"), pytest.raises(ConfigError, match="another process"):
        train(small(), tmp_path / "new")


@pytest.mark.parametrize("name", ["engine.pt", "trainer.pt"])
@pytest.mark.parametrize("damage", ["cut", "other", "gone"])
def test_a_damaged_checkpoint_says_what_to_do(run: Path, tmp_path: Path, name: str, damage: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(run, folder)
    path = folder / "checkpoints" / "step-2" / name
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:1000] if damage == "cut" else b"something else")
    with pytest.raises(ConfigError) as caught:
        resume(folder)
    assert "remove that checkpoint" in caught.value.fix
    if name == "engine.pt" and damage != "gone":
        with pytest.raises(ConfigError, match="damaged"):
            find(str(path.parent)).load()


def test_a_run_goes_on_from_the_checkpoint_before(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(run, folder)
    shutil.rmtree(folder / "checkpoints" / "step-2")
    (folder / "checkpoints" / ".step-2.99").mkdir()  # a kill left it
    resume(folder)
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["step-1", "step-2"]
    assert (folder / "model" / "model.safetensors").read_bytes() == (run / "model" / "model.safetensors").read_bytes()


def test_a_disk_that_is_full_is_named_and_spoils_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(run, folder)
    shutil.rmtree(folder / "checkpoints" / "step-2")

    def full(state: Any, path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full)
        with pytest.raises(DataError, match="cannot be written"):
            resume(folder)
    resume(folder)
    assert len(list((folder / "checkpoints").iterdir())) == 2


def test_a_tokenizer_is_written_once(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(run, folder)
    shutil.rmtree(folder / "checkpoints" / "step-2")
    before = (folder / "tokenizer" / "tokenizer.json").stat().st_mtime_ns
    resume(folder)
    assert (folder / "tokenizer" / "tokenizer.json").stat().st_mtime_ns == before


# ---- what is counted -----------------------------------------------------------------------------------------------


def test_groups_that_are_not_trained_on_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentenvs.train.sampling.InOrder.admit", lambda sampler, group: False)
    train(small(**QUICK, steps=1), tmp_path / "run")
    (line,) = (json.loads(one) for one in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert line["groups"] == 0
    assert line["groups_drawn"] == 8
    assert line["episodes"] == 16
    assert line["tokens_sampled"] > 0


def test_a_lost_episode_makes_no_group_informative() -> None:
    sampler = samplers.make("in-order", {"informative": True})
    won, lost = (Episode("world", TaskRef("train", 0), 0, sample, outcome=1.0 - sample) for sample in range(2))
    assert sampler.admit([won, won, lost])
    lost.lost = "the server went away"
    assert not sampler.admit([won, won, lost])


def test_what_nothing_is_sampled_behind_is_not_kept() -> None:
    writer = EpisodeWriter(Episode("world", TaskRef("train", 0), 0, 0))
    writer.append([1, 2], Role.PROMPT)
    writer.sampled([3], [-0.5], 0, forced=[4])
    writer.append([5] * 100, Role.OBSERVATION)
    writer.cut()
    episode = writer.finish()
    assert episode.segments[0].ids.tolist() == [1, 2, 3]
    assert len(pack(Batch([episode]), [0], 8)) == 1
