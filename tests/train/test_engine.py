"""The engine samples and scores what the model's own forward says, whatever its shape, and learns a small game."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from agentenvs.core.errors import ConfigError
from agentenvs.train import methods
from agentenvs.train.batch import Batch
from agentenvs.train.engine.learner import Learner, LearnerConfig
from agentenvs.train.engine.legal import Trie
from agentenvs.train.engine.torch_engine import SamplerConfig, TorchEngine
from agentenvs.train.interfaces import Draw, Sampling, credits_, losses
from tests.train.games import Shifted, episodes, game_engine, tiny

KINDS = ("qwen3", "qwen2", "llama", "gpt2")
LEGAL = ([5, 6, 7, 1], [5, 6, 8, 1], [9, 1], [5, 2, 1])


def conversations(engine: TorchEngine, seed: int) -> dict[int, tuple[list[int], dict[int, tuple[float, object]]]]:
    """Play six ragged conversations of several turns, some with legal actions; return ids, and what was sampled."""
    rng = random.Random(seed)
    ids = {slot: [rng.randrange(97) for _ in range(rng.randrange(1, 9))] for slot in range(6)}
    told: dict[int, dict[int, tuple[float, object]]] = {slot: {} for slot in range(6)}
    turns = dict.fromkeys(range(6), 0)
    sampling = Sampling(max_tokens=7, stop=(1, 2, 3), forced_end=4)

    def submit(slot: int) -> None:
        legal = LEGAL if turns[slot] % 3 == 2 else None
        engine.submit(Draw(list(ids[slot]), slot, seed=slot * 100 + turns[slot], legal=legal))

    for slot in ids:
        submit(slot)
    while done := engine.advance(sampling):
        for slot, sampled in done:
            for place, (token, logp) in enumerate(zip(sampled.ids, sampled.logps, strict=True)):
                candidates = None if sampled.candidates is None else sampled.candidates[place]
                told[slot][len(ids[slot])] = (logp, candidates)
                ids[slot].append(token)
            ids[slot] += sampled.forced + [rng.randrange(97) for _ in range(rng.randrange(0, 12))]
            turns[slot] += 1
            if turns[slot] < 6:
                submit(slot)
    return {slot: (ids[slot], told[slot]) for slot in ids}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_sampled_has_the_log_probability_of_the_models_own_forward(kind: str) -> None:
    model = tiny(kind)
    engine = TorchEngine(model, SamplerConfig(slots=6, max_length=200), LearnerConfig())
    compared = 0
    for ids, told in conversations(engine, seed=3).values():
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0]
        for place, (logp, candidates) in told.items():
            if place == 0:
                continue
            row = logits[place - 1]
            among = row if candidates is None else row[torch.tensor(candidates).long()]
            assert float(row[ids[place]] - torch.logsumexp(among, 0)) == pytest.approx(logp, abs=1e-5)
            compared += 1
    assert compared > 60


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_models_own_forward(kind: str) -> None:
    model = tiny(kind)
    engine = TorchEngine(model, SamplerConfig(slots=2, max_length=64), LearnerConfig(token_budget=64))
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, 97, size).astype(np.int32) for size in (1, 5, 31, 12)]
    for ids, scored in zip(sequences, engine.score(sequences), strict=True):
        with torch.no_grad():
            logps = torch.log_softmax(model(torch.from_numpy(ids[None].astype(np.int64))).logits[0], -1)
        wanted = [0.0, *(float(logps[place - 1, ids[place]]) for place in range(1, len(ids)))]
        assert scored == pytest.approx(np.array(wanted), abs=1e-5)


def test_the_same_seeds_sample_the_same_whatever_else_is_sampled() -> None:
    model = tiny()
    together = TorchEngine(model, SamplerConfig(slots=8, max_length=64), LearnerConfig())
    alone = TorchEngine(model, SamplerConfig(slots=1, max_length=64), LearnerConfig())
    draws = [Draw([3, 5, place], place, seed=place) for place in range(8)]
    sampling = Sampling(max_tokens=12)
    many = together.sample(draws, sampling)
    for draw, found in zip(draws, many, strict=True):
        alone.release([0])
        (one,) = alone.sample([Draw(draw.ids, 0, draw.seed)], sampling)
        assert one.ids == found.ids


def test_legal_actions_have_probabilities_that_add_up_to_one() -> None:
    engine = TorchEngine(tiny(), SamplerConfig(slots=1, max_length=64), LearnerConfig())
    found: dict[tuple[int, ...], float] = {}
    for seed in range(200):
        (sampled,) = engine.sample([Draw([4, 2], 0, seed, LEGAL)], Sampling())
        found[tuple(sampled.ids)] = float(np.exp(sum(sampled.logps)))
        if len(found) == len(LEGAL):
            break
    assert set(found) == {tuple(action) for action in LEGAL}
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-5)


def test_scores_among_the_legal_actions_are_those_that_were_sampled() -> None:
    engine = TorchEngine(tiny(), SamplerConfig(slots=1, max_length=64), LearnerConfig())
    (sampled,) = engine.sample([Draw([4, 2], 0, 3, LEGAL)], Sampling())
    assert sampled.candidates is not None
    ids = np.array([4, 2, *sampled.ids], np.int32)
    (scored,) = engine.score([ids], "now", [[None, None, *sampled.candidates]])
    assert scored[2:] == pytest.approx(np.array(sampled.logps), abs=1e-5)


@pytest.mark.parametrize("sequences", [[], [[]], [[1, 2], [1]], [[1], [1, 2]]])
def test_a_trie_refuses_what_cannot_be_told_apart(sequences: list[list[int]]) -> None:
    with pytest.raises(ValueError, match=r"legal|beginning"):
        Trie(sequences)


def test_a_prefix_that_does_not_fit_is_refused_in_words() -> None:
    engine = TorchEngine(tiny(), SamplerConfig(slots=1, max_length=16), LearnerConfig())
    with pytest.raises(ConfigError, match="raise max_length"):
        engine.submit(Draw(list(range(16)), 0, 0))


@pytest.mark.parametrize("aggregation", ["token-mean", "sequence-mean", "constant", "response-sum"])
@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_a_loss_does_not_depend_on_how_an_update_is_cut_up(kind: str, aggregation: str) -> None:
    gradients, values = [], []
    for budget in (64, 10_000):
        model = tiny(kind)
        learner = Learner(model, LearnerConfig(token_budget=budget, clip=1e9, lr=0.0))
        batch = Batch(episodes(12))
        for index in range(12):
            batch.paint(index, float(index) / 6 - 1)
        loss = losses.make("ppo-clip")
        loss.aggregation = aggregation  # type: ignore[assignment]
        values.append(learner.update(batch, loss, range(12)).loss)
        gradients.append(torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None]))
    assert values[0] == pytest.approx(values[1], abs=1e-5)
    assert torch.allclose(gradients[0], gradients[1], atol=1e-5)


def test_an_engine_that_was_saved_takes_the_same_next_step(tmp_path: Path) -> None:
    def stepped(engine: TorchEngine) -> list[float]:
        batch = Batch(episodes(8, seed=5))
        for index in range(8):
            batch.paint(index, float(index % 3) - 1)
        return [engine.train(batch, losses.make("ppo-clip"), range(8)).loss, *_weights(engine)]

    first = TorchEngine(tiny(), SamplerConfig(slots=2, max_length=64), LearnerConfig())
    stepped(first)
    first.publish()
    first.save(tmp_path / "saved")
    second = TorchEngine(tiny(seed=9), SamplerConfig(slots=2, max_length=64), LearnerConfig())
    second.load(tmp_path / "saved")
    assert stepped(second) == stepped(first)
    assert second.version == first.version


def test_a_damaged_checkpoint_is_refused_in_words(tmp_path: Path) -> None:
    engine = TorchEngine(tiny(), SamplerConfig(slots=2, max_length=64), LearnerConfig())
    with pytest.raises(ConfigError, match="is not there"):
        engine.load(tmp_path)
    engine.save(tmp_path)
    (tmp_path / "engine.pt").write_bytes((tmp_path / "engine.pt").read_bytes()[:1000])
    with pytest.raises(ConfigError, match="damaged"):
        engine.load(tmp_path)


def test_older_weights_sample_what_they_sampled() -> None:
    engine = TorchEngine(
        tiny(), SamplerConfig(slots=2, max_length=64, keep_versions=3), LearnerConfig(lr=0.1, warmup=0)
    )
    before = engine.sample([Draw([1, 2], 0, 7)], Sampling())
    batch = Batch(episodes(4))
    for index in range(4):
        batch.paint(index, 1.0)
    engine.train(batch, losses.make("ppo-clip"), range(4))
    engine.publish()
    assert engine.sample([Draw([1, 2], 0, 7)], Sampling())[0].logps != before[0].logps
    assert engine.use(0) == 0
    assert engine.sample([Draw([1, 2], 0, 7)], Sampling()) == before


@pytest.mark.parametrize("seed", [1, 2])
def test_a_game_is_learned_from_random_weights(seed: int) -> None:
    torch.set_num_threads(1)
    engine, game, recipe = game_engine(seed), Shifted(seed), methods.get("grpo")
    credits = [credits_.make(name, settings) for name, settings in recipe.credits]
    loss = losses.make(*recipe.loss)
    rates = []
    for _ in range(150):
        batch = game.play(engine)
        for credit in credits:
            credit.apply(batch)
        update = engine.train(batch, loss, range(len(batch.episodes)))
        engine.publish()
        assert update.metrics["gap"] < 1e-4
        rates.append(np.mean([episode.success for episode in batch.episodes]))
    assert np.mean(rates[:5]) < 0.3
    assert np.mean(rates[-10:]) > 0.85


def _weights(engine: TorchEngine) -> list[float]:
    return [float(value.double().sum()) for value in engine.model.state_dict().values()]


def test_activations_computed_again_give_the_same_update_and_bfloat16_nearly_so() -> None:
    def updated(**settings: object) -> tuple[float, torch.Tensor]:
        model = tiny()
        learner = Learner(model, LearnerConfig(clip=1e9, lr=0.0, **settings))  # type: ignore[arg-type]
        batch = Batch(episodes(12))
        for index in range(12):
            batch.paint(index, float(index) / 6 - 1)
        loss = learner.update(batch, losses.make("reinforce"), range(12)).loss
        return loss, torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])

    plain, again, half = updated(), updated(checkpointing=True), updated(precision="bfloat16")
    assert again[0] == pytest.approx(plain[0], abs=1e-6)
    assert torch.allclose(again[1], plain[1], atol=1e-6)
    assert half[0] == pytest.approx(plain[0], abs=0.05)
    assert float(torch.nn.functional.cosine_similarity(half[1], plain[1], dim=0)) > 0.99


def test_a_sampler_in_bfloat16_is_near_the_models_own_forward() -> None:
    model = tiny()
    engine = TorchEngine(model, SamplerConfig(slots=6, max_length=200, precision="bfloat16"), LearnerConfig())
    gaps = []
    for ids, told in conversations(engine, seed=3).values():
        (scored,) = engine.score([np.array(ids, np.int32)])
        gaps += [abs(scored[at] - logp) for at, (logp, among) in told.items() if at and among is None]
    assert 0 < np.mean(gaps) < 0.02
