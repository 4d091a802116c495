"""Adapters: the model begins as it was, only they learn, the sampler gets the sum, and peft reads what was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from agentenvs.core.errors import ConfigError
from agentenvs.train import models
from agentenvs.train.batch import Batch
from agentenvs.train.engine.learner import LearnerConfig
from agentenvs.train.engine.lora import LoraConfig, save
from agentenvs.train.engine.torch_engine import SamplerConfig, TorchEngine
from agentenvs.train.interfaces import losses
from agentenvs.train.models import Shape, build
from agentenvs.train.opening import find
from agentenvs.train.run import train
from agentenvs.train.tokenizer import train_tokenizer
from tests.train.games import episodes, tiny
from tests.train.test_run import lines, small

IDS = [np.array([3, 5, 8, 2, 9], np.int32)]


def learned(kind: str = "qwen2") -> TorchEngine:
    learner = LearnerConfig(lr=0.05, warmup=0)
    engine = TorchEngine(tiny(kind), SamplerConfig(slots=2, max_length=64), learner, lora=LoraConfig(rank=4, alpha=8.0))
    batch = Batch(episodes(8))
    for index in range(8):
        batch.paint(index, float(index % 3) - 1)
    for _ in range(2):
        engine.train(batch, losses.make("reinforce"), range(8))
    engine.publish()
    return engine


@pytest.mark.parametrize("kind", ["qwen3", "qwen2", "llama"])
def test_a_model_begins_as_it_was_and_its_own_weights_stay(kind: str) -> None:
    plain = TorchEngine(tiny(kind), SamplerConfig(slots=2, max_length=64), LearnerConfig()).score(IDS)[0]
    engine = TorchEngine(tiny(kind), SamplerConfig(slots=2, max_length=64), LearnerConfig(), lora=LoraConfig(rank=4))
    assert engine.score(IDS)[0].tolist() == plain.tolist()
    engine = learned(kind)
    assert np.abs(engine.score(IDS)[0] - plain).max() > 0.01
    own, before = engine.model.state_dict(), tiny(kind).state_dict()
    assert all(torch.equal(own[name], before[name]) for name in before if name in own)


def test_the_sampler_gets_the_sum() -> None:
    engine = learned()
    with torch.no_grad():
        logps = torch.log_softmax(engine._twin(torch.from_numpy(IDS[0][None].astype(np.int64))).logits[0], -1)
    wanted = [float(logps[place - 1, IDS[0][place]]) for place in range(1, len(IDS[0]))]
    assert engine.score(IDS)[0][1:] == pytest.approx(np.array(wanted), abs=1e-5)


def test_only_adapters_are_in_the_optimizer() -> None:
    sizes = {one.shape for group in learned().learner.optimizer.param_groups for one in group["params"]}
    assert all(4 in shape for shape in sizes)


def stored(folder: Path) -> Path:
    words = train_tokenizer(["look", "go to shelf 1"] * 5, 300)
    models.store(build(Shape(hidden=32, layers=2, heads=2, feed_forward=64), len(words), 1), words, folder)
    return folder


def test_a_run_trains_adapters_and_leaves_them_beside_the_whole_model(tmp_path: Path) -> None:
    base = stored(tmp_path / "base")
    config = small(model={"folder": str(base), "template": "plain"}, lora={"rank": 2}, steps=1, save={"every": 1})
    train(config, tmp_path / "run")
    assert lines(tmp_path / "run")[-1]["gap"] < 1e-4
    places = [tmp_path / "run" / name for name in ("model", "adapter", "checkpoints/step-1")]
    states = [find(str(place)).load()[0].state_dict() for place in places]
    for state in states[1:]:
        assert all(torch.allclose(state[name], states[0][name], atol=1e-6) for name in states[0])
    before = models.load(base)[0].state_dict()
    assert any(not torch.equal(before[name], states[0][name]) for name in before)


def test_peft_reads_what_was_written(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft reads adapters: pip install peft")
    engine = learned()
    save(engine.model, engine.model.state_dict(), LoraConfig(rank=4, alpha=8.0), tmp_path, "unused")
    read = peft.PeftModel.from_pretrained(tiny("qwen2"), tmp_path)
    with torch.no_grad():
        logits = read(torch.from_numpy(IDS[0][None].astype(np.int64))).logits
        wanted = engine._twin(torch.from_numpy(IDS[0][None].astype(np.int64))).logits
    assert torch.allclose(logits, wanted, atol=1e-5)


def test_a_model_without_such_maps_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing to adapt"):
        TorchEngine(tiny("gpt2"), SamplerConfig(slots=2, max_length=64), LearnerConfig(), lora=LoraConfig(rank=2))
