"""A token game and tiny models: what a trainer can be seen to learn in seconds."""

from __future__ import annotations

import random
from typing import Any

import torch
import transformers

from agentenvs.core.task import TaskRef
from agentenvs.train.batch import Batch
from agentenvs.train.engine.learner import LearnerConfig
from agentenvs.train.engine.torch_engine import SamplerConfig, TorchEngine
from agentenvs.train.interfaces import Draw, Sampling
from agentenvs.train.records import Episode, EpisodeWriter


def tiny(kind: str = "qwen3", vocabulary: int = 97, seed: int = 0) -> Any:
    """Return a model of random weights: ``qwen3``, ``llama`` or ``gpt2``."""
    torch.manual_seed(seed)
    if kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=vocabulary,
            n_positions=256,
            n_embd=48,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
        return transformers.GPT2LMHeadModel(config).eval()
    kinds: dict[str, tuple[Any, Any]] = {
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    }
    config_class, model_class = kinds[kind]
    more = {"head_dim": 12} if kind == "qwen3" else {}
    config = config_class(
        vocab_size=vocabulary,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        **more,
    )
    return model_class(config).eval()


def episodes(count: int, seed: int = 0, turns: int = 3, vocabulary: int = 97, group: int = 4) -> list[Episode]:
    """Return made-up episodes with random tokens and outcomes; groups of some."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        episode = Episode("game", TaskRef("train", number // group), number // group, number % group)
        writer = EpisodeWriter(episode)
        prefix = [rng.randrange(vocabulary) for _ in range(rng.randrange(2, 9))]
        for _ in range(rng.randrange(1, turns + 1)):
            writer.prompt(prefix)
            said = [rng.randrange(vocabulary) for _ in range(rng.randrange(1, 6))]
            turn = writer.sampled(said, [-rng.random() * 3 for _ in said], 0)
            turn.state_key = f"s{rng.randrange(3)}"
            prefix = [*prefix, *said, *(rng.randrange(vocabulary) for _ in range(3))]
        writer.finish()
        episode.outcome = float(rng.randrange(2))
        episode.success = episode.outcome > 0
        found.append(episode)
    return found


class Shifted:
    """A cue and a number are shown; right is the number shifted by what the cue means, modulo 8."""

    numbers = 8
    cues = 2

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._shift = [self._rng.randrange(self.numbers) for _ in range(self.cues)]
        self._step = 0

    def play(self, engine: TorchEngine, groups: int = 16, size: int = 16) -> Batch:
        """Sample an answer to some questions, many times each."""
        questions = [(self._rng.randrange(self.cues), self._rng.randrange(self.numbers)) for _ in range(groups)]
        draws = [
            Draw([20 + cue, number], slot=place * size + sample, seed=(self._step * groups + place) * size + sample)
            for place, (cue, number) in enumerate(questions)
            for sample in range(size)
        ]
        self._step += 1
        played = []
        for draw, sampled in zip(draws, engine.sample(draws, Sampling(max_tokens=1)), strict=True):
            episode = Episode("game", TaskRef("train", 0), draw.slot // size, draw.slot % size)
            writer = EpisodeWriter(episode)
            writer.prompt(draw.ids)
            writer.sampled(sampled.ids, sampled.logps, engine.used)
            writer.finish()
            cue, number = questions[draw.slot // size]
            episode.success = sampled.ids[0] == (number + self._shift[cue]) % self.numbers
            episode.outcome = float(episode.success)
            played.append(episode)
        return Batch(played)


def game_engine(seed: int, steps: int = 150) -> TorchEngine:
    """Return an engine whose model has 78,000 random weights."""
    from agentenvs.train.models import Shape, build

    shape = Shape(hidden=64, layers=2, heads=2, key_value_heads=1, feed_forward=128, length=64, tied=False)
    learner = LearnerConfig(lr=2e-3, warmup=10, decay=steps, token_budget=65536)
    return TorchEngine(build(shape, 32, seed), SamplerConfig(slots=256, max_length=32), learner)
