"""Every method against an oracle that is written from its formula, token by token, and shares no code with it."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from agentenvs.core.errors import ConfigError
from agentenvs.core.trace import Fact
from agentenvs.train import methods
from agentenvs.train.batch import Batch
from agentenvs.train.engine.learner import LearnerConfig
from agentenvs.train.engine.torch_engine import SamplerConfig, TorchEngine
from agentenvs.train.interfaces import Tokens, credits_, losses, signals
from agentenvs.train.methods.iapo import weights
from agentenvs.train.methods.proas import blame, reasonable
from agentenvs.train.methods.proximal_kl import to_come
from agentenvs.train.methods.spo import fading
from agentenvs.train.records import Episode, Turn
from tests.train.games import episodes, tiny

FIRST = {
    "clone",
    "grpo",
    "dr-grpo",
    "dapo",
    "rloo",
    "cispo",
    "ppo",
    "gigpo",
    "iapo",
    "wpm",
    "wpm-stream",
    "vetta",
    "spo",
    "spo++",
    "klpo",
    "proximal-kl",
    "opdvr",
    "proas-like",
}


def batch_of(seed: int = 0, count: int = 24, turns: int = 4) -> Batch:
    """Return a batch whose turns have rewards, potentials and states."""
    made = episodes(count, seed=seed, turns=turns)
    rng = np.random.default_rng(seed)
    for episode in made:
        for place, turn in enumerate(episode.turns):
            turn.valid = bool(rng.integers(4))
            turn.potential = float(-rng.integers(1, 5)) / 4
            turn.next_state_key = episode.turns[place + 1].state_key if place + 1 < len(episode.turns) else "end"
            turn.error = None if turn.valid else "unknown"
            turn.reward = 0.0
        for turn, after in pairwise(episode.turns):
            turn.next_potential = after.potential
        episode.turns[-1].reward = episode.outcome
        episode.turns[-1].next_potential = 0.0
        episode.ending = "terminated"
    return Batch(made)


def credited(name: str, batch: Batch, **settings: Any) -> None:
    credits_.make(name, settings).apply(batch)


def of_turn(batch: Batch, index: int, place: int) -> np.ndarray:
    turn = batch.episodes[index].turns[place]
    return batch.advantages[index][turn.segment][turn.start : turn.end]


def group_of(batch: Batch, index: int) -> list[Episode]:
    return [one for one in batch.episodes if one.group == batch.episodes[index].group]


def test_all_first_methods_are_there_and_say_where_they_come_from() -> None:
    known = methods.recipes()
    assert set(known) >= FIRST
    for recipe in known.values():
        assert recipe.source
        assert recipe.provenance == "like" or not recipe.name.endswith("-like")
        for name, settings in recipe.credits:
            credits_.make(name, settings)
        for name, settings in recipe.signals:
            signals.make(name, settings)
        losses.make(*recipe.loss)


@pytest.mark.parametrize("deviation", [True, False])
def test_group_relative(deviation: bool) -> None:
    batch = batch_of()
    credited("group-relative", batch, deviation=deviation)
    for index, episode in enumerate(batch.episodes):
        outcomes = [one.outcome for one in group_of(batch, index)]
        mean = sum(outcomes) / len(outcomes)
        sd = math.sqrt(sum((one - mean) ** 2 for one in outcomes) / (len(outcomes) - 1))
        wanted = (episode.outcome - mean) / (sd + 1e-6 if deviation else 1.0)
        for place in range(len(episode.turns)):
            assert of_turn(batch, index, place) == pytest.approx(wanted, abs=1e-5)


def test_a_group_of_one_keeps_its_outcome() -> None:
    batch = Batch(batch_of().episodes[:1])
    batch.episodes[0].outcome = 3.0
    for name in ("group-relative", "leave-one-out"):
        credited(name, batch)
        assert of_turn(batch, 0, 0) == pytest.approx(3.0, abs=1e-4)


def test_leave_one_out() -> None:
    batch = batch_of(1)
    credited("leave-one-out", batch)
    for index, episode in enumerate(batch.episodes):
        others = [one.outcome for one in group_of(batch, index) if one is not episode]
        assert of_turn(batch, index, 0) == pytest.approx(episode.outcome - sum(others) / len(others), abs=1e-6)


@pytest.mark.parametrize("by_turns", [True, False])
def test_group_in_group(by_turns: bool) -> None:
    batch = batch_of(2, turns=5)
    gamma, weight, penalty = 0.9, 0.7, 0.1
    credited("group-in-group", batch, gamma=gamma, weight=weight, by_turns=by_turns, invalid=penalty)
    rewards = [[t.reward - (0 if t.valid else penalty) for t in e.turns] for e in batch.episodes]
    for index, episode in enumerate(batch.episodes):
        mine = [k for k, one in enumerate(batch.episodes) if one.group == episode.group]
        totals = [sum(rewards[k]) for k in mine for _ in (rewards[k] if by_turns else [0])]
        outcome = sum(rewards[index]) - sum(totals) / len(totals)
        for place, turn in enumerate(episode.turns):
            togo = {
                (k, p): sum(gamma ** (q - p) * rewards[k][q] for q in range(p, len(rewards[k])))
                for k in mine
                for p, one in enumerate(batch.episodes[k].turns)
                if one.state_key == turn.state_key
            }
            mean = sum(togo.values()) / len(togo)
            step = togo[index, place] - mean if len(togo) > 1 else 0.0
            assert of_turn(batch, index, place) == pytest.approx(outcome + weight * step, abs=1e-5)


@pytest.mark.parametrize("over", ["group", "batch"])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_progress_is_the_discounted_sum_of_shaped_rewards(over: str, offset: float) -> None:
    batch = batch_of(3)
    batch.episodes[1].ending = "truncated"  # and it keeps what it has reached
    batch.episodes[1].turns[-1].next_potential = -0.5
    gamma, rho = 0.99, 0.95
    credited("progress", batch, gamma=gamma, rho=rho, over=over, offset=offset)
    togo: dict[tuple[int, int], float] = {}
    for index, episode in enumerate(batch.episodes):
        worths = [offset + (t.potential or 0.0) for t in episode.turns]
        worths.append(0.0 if episode.ending == "terminated" else offset + (episode.turns[-1].next_potential or 0.0))
        shaped = [t.reward + gamma * worths[place + 1] - worths[place] for place, t in enumerate(episode.turns)]
        for place in range(len(shaped)):
            togo[index, place] = sum((gamma * rho) ** (k - place) * shaped[k] for k in range(place, len(shaped)))
    for index, episode in enumerate(batch.episodes):
        group = [k for k, one in enumerate(batch.episodes) if over == "batch" or one.group == episode.group]
        mine = [value for (k, _), value in togo.items() if k in group]
        mean, sd = float(np.mean(mine)), float(np.std(mine, ddof=1))
        for place in range(len(episode.turns)):
            assert of_turn(batch, index, place) == pytest.approx((togo[index, place] - mean) / (sd + 1e-6), abs=1e-4)


def test_progress_has_no_other_baseline_than_group_and_batch() -> None:
    with pytest.raises(ConfigError, match="over is 'group' or 'batch', not 'world'"):
        credits_.make("progress", {"over": "world"})
    assert "episode.group" not in credits_.make("progress", {"over": "batch"}).required()


def test_progress_telescopes_to_the_outcome_where_nothing_is_forgotten() -> None:
    batch = batch_of(4)
    credited("progress", batch, gamma=1.0, rho=1.0, deviation=False)
    for index, episode in enumerate(batch.episodes):
        for place, turn in enumerate(episode.turns):
            first = of_turn(batch, index, 0)[0]
            shift = (episode.turns[0].potential or 0.0) - (turn.potential or 0.0)
            assert of_turn(batch, index, place)[0] == pytest.approx(first + shift, abs=1e-5)


def fact(seen: int | None) -> Fact:
    return Fact("mug 1", "in", "fridge 1", seen)


def test_information_flow_follows_its_equations() -> None:
    turns = [
        Turn(0, 0, 2),
        Turn(0, 5, 6, used=(fact(0), fact(1))),
        Turn(0, 9, 12, valid=False, error="gone", action="take", state_key="a"),
        Turn(0, 15, 16, valid=False, error="gone", action="take", state_key="a"),
        Turn(0, 18, 20, used=(fact(2), fact(1))),
    ]
    lengths = np.array([2.0, 1.0, 3.0, 1.0, 2.0])
    out_plus, evidence = [2, 1, 0, 0, 0], [0, 2, 0, 0, 2]
    out_minus, error = [0, 0, 1, 0, 0], [0, 0, 1, 1, 0]
    plus = [math.log(1 + a + b) for a, b in zip(out_plus, evidence, strict=True)]
    minus = [math.log(1 + e * (1 + a + b)) for e, a, b in zip(error, out_minus, evidence, strict=True)]

    def shares(values: list[float]) -> list[float]:
        mean = sum(v * n for v, n in zip(values, lengths, strict=True)) / 9
        sd = math.sqrt(sum(n * (v - mean) ** 2 for v, n in zip(values, lengths, strict=True)) / 9)
        raised = [math.exp(min(max((v - mean) / (sd + 1e-6), -1), 1)) for v in values]
        whole = sum(n * r for n, r in zip(lengths, raised, strict=True)) / 9
        return [r / whole for r in raised]

    assert weights(turns, lengths, -1.0, 1.0, 0.5) == pytest.approx(shares(minus), abs=1e-9)
    mean = sum(v * n for v, n in zip(minus, lengths, strict=True)) / 9
    tilted = [m * math.exp(-0.5 * (v - mean)) for m, v in zip(shares(plus), minus, strict=True)]
    whole = sum(n * t for n, t in zip(lengths, tilted, strict=True))
    found = weights(turns, lengths, 1.0, 1.0, 0.5)
    assert found == pytest.approx([9 * t / whole for t in tilted], abs=1e-9)
    assert (found * lengths).sum() == pytest.approx(9)
    assert found[0] > found[2]


def test_a_graph_that_tells_nothing_changes_nothing() -> None:
    turns = [Turn(0, 3 * k, 3 * k + 2) for k in range(4)]
    for advantage in (1.0, -1.0):
        assert weights(turns, np.full(4, 2.0), advantage, 1.0, 0.5) == pytest.approx(np.ones(4))


def test_generalised_advantages_skip_what_the_environment_says() -> None:
    batch = batch_of(5)
    rng = np.random.default_rng(5)
    for episode in batch.episodes:
        for segment in episode.segments:
            segment.streams["value"] = rng.normal(size=len(segment)).astype(np.float32)
    gamma, decay = 0.97, 0.9
    credited("generalised", batch, gamma=gamma, decay=decay)
    for index, episode in enumerate(batch.episodes):
        (segment,) = episode.segments
        where = [k for k in range(len(segment)) if segment.loss_mask[k]]
        ends = {turn.end - 1: turn.reward for turn in episode.turns}
        values = [float(segment.streams["value"][k]) for k in where] + [0.0]
        deltas = [ends.get(k, 0.0) + gamma * values[n + 1] - values[n] for n, k in enumerate(where)]
        for n, k in enumerate(where):
            wanted = sum((gamma * decay) ** (m - n) * deltas[m] for m in range(n, len(where)))
            assert batch.advantages[index][0][k] == pytest.approx(wanted, abs=1e-4)
            assert segment.streams["value_target"][k] == pytest.approx(values[n] + wanted, abs=1e-4)


def test_turns_carry_the_credit_that_tokens_spread() -> None:
    batch = batch_of(6)
    rng = np.random.default_rng(6)
    for episode in batch.episodes:
        for segment in episode.segments:
            segment.streams["value"] = rng.normal(size=len(segment)).astype(np.float32)
        for turn in episode.turns:
            turn.signals["value"] = float(rng.normal())
    credited("turns-and-tokens", batch, gamma=0.95, decay=0.95, alpha=3.0)
    for index, episode in enumerate(batch.episodes):
        values = [turn.signals["value"] for turn in episode.turns] + [0.0]
        deltas = [turn.reward + 0.95 * values[k + 1] - values[k] for k, turn in enumerate(episode.turns)]
        for k in range(len(deltas)):
            wanted = sum((0.95 * 0.95) ** (m - k) * deltas[m] for m in range(k, len(deltas)))
            assert of_turn(batch, index, k).mean() == pytest.approx(wanted, abs=1e-4)
        remaining = [t.end - t.start for t in episode.turns]
        if remaining[-1] > 1:  # gamma = lambda = 1: advantages of tokens differ as their values do
            turn = episode.turns[-1]
            before = episode.segments[0].streams["value"][turn.start : turn.end]
            spread = of_turn(batch, index, len(remaining) - 1)
            assert np.diff(spread) == pytest.approx(-3.0 * np.diff(before), abs=1e-4)


def test_evidence_fades_between_its_bounds() -> None:
    assert fading(0.0) == 0.96
    assert fading(10.0) == 0.875
    assert fading(0.01) == pytest.approx(2 ** (-0.01 / 0.06))


def test_the_clock_does_not_depend_on_the_order_of_arrival() -> None:
    def played(order: list[int]) -> list[float]:
        clock = signals.make("spo-clock")
        made = [one for one in batch_of(7).episodes if one.group == 0]
        for k, episode in enumerate(made):
            episode.dispatch_version = 4
            for segment in episode.segments:
                segment.version[segment.version >= 0] = 1 + k % 3
        clock.compute([made[k] for k in order], SimpleNamespace())  # type: ignore[arg-type]
        probe = batch_of(7).episodes[0]
        probe.dispatch_version = 9
        clock.compute([probe], SimpleNamespace())  # type: ignore[arg-type]
        return [probe.extras["baseline"]]

    assert played([0, 1, 2, 3]) == pytest.approx(played([3, 1, 0, 2]))
    made = [one for one in batch_of(7).episodes if one.group == 0]
    wins = 0.5 * 0.875**9 + sum(0.875 ** (9 - 1 - k % 3) * one.success for k, one in enumerate(made))
    losing = 0.5 * 0.875**9 + sum(0.875 ** (9 - 1 - k % 3) * (not one.success) for k, one in enumerate(made))
    assert played([0, 1, 2, 3]) == pytest.approx([wins / (wins + losing)])


def test_a_baseline_is_read_before_the_outcome_is_added() -> None:
    engine = TorchEngine(tiny(), SamplerConfig(slots=1, max_length=64), LearnerConfig())
    for name in ("spo-tracker", "spo-clock"):
        tracker = signals.make(name)
        episode = batch_of(8).episodes[0]
        tracker.compute([episode], engine)
        assert episode.extras["baseline"] == 0.5
        again = signals.make(name)
        again.load_state_dict(tracker.state_dict())
        tracker.compute([episode], engine)
        first = episode.extras["baseline"]
        again.compute([episode], engine)
        assert episode.extras["baseline"] == first
        assert (first > 0.5) == episode.success


@pytest.mark.parametrize(("name", "measure"), [("standardise-tokens", "token"), ("standardise-episodes", "episode")])
def test_normalisers_leave_mean_nought_over_their_own_measure(name: str, measure: str) -> None:
    batch = batch_of(9)
    for index in range(len(batch.episodes)):
        batch.paint(index, float(index % 5))
    credited(name, batch)
    each = [float(of_turn(batch, index, 0)[0]) for index in range(len(batch.episodes))]
    values = batch.flat() if measure == "token" else np.array(each)
    assert values.mean() == pytest.approx(0, abs=1e-5)
    assert values.std(ddof=1) == pytest.approx(1, abs=1e-4)


def test_a_teacher_pulls_only_where_the_verdict_agrees() -> None:
    batch = batch_of(10)
    rng = np.random.default_rng(10)
    for episode in batch.episodes:
        for segment in episode.segments:
            segment.streams["logp_teacher"] = -rng.random(len(segment)).astype(np.float32)
    credited("teacher-where-right", batch)
    for index, place, segment in batch.segments():
        for k in range(len(segment)):
            pull = float(segment.streams["logp_teacher"][k] - segment.logp_mu[k])
            right = batch.episodes[index].success
            wanted = max(0.0, pull) if right else -max(0.0, -pull)
            assert batch.advantages[index][place][k] == pytest.approx(wanted if segment.loss_mask[k] else 0, abs=1e-6)


def test_praise_is_withheld_from_what_cannot_have_helped() -> None:
    def turn(before: str, after: str, valid: bool = True) -> Turn:
        return Turn(0, 0, 1, state_key=before, next_state_key=after, valid=valid)

    edges = {("a", "b"), ("b", "c")}
    turns = [turn("a", "b"), turn("b", "b"), turn("b", "a"), turn("a", "x"), turn("x", "y"), turn("y", "z", False)]
    assert reasonable(turns, edges) == [True, False, False, False, True, False]
    shares = blame([turn("a", "b"), turn("b", "x"), turn("x", "y")], edges, np.array([1.0, 2.0, 3.0]), 0.5, 0.0)
    assert shares == pytest.approx(np.array([0.0, 1.0, 0.5]) * 6 / 3.5)
    assert blame([turn("a", "b")], edges, np.ones(1), 0.5, 0.0) == pytest.approx([1.0])


# ---- losses --------------------------------------------------------------------------------------------------------


def tokens_of(**changes: Any) -> Tokens:
    rng = np.random.default_rng(0)
    count = 64
    mu = torch.tensor(-rng.random(count) * 3, dtype=torch.float64)
    old = mu + torch.tensor(rng.normal(size=count) * 0.3)
    values: dict[str, Any] = {
        "logp": (old + torch.tensor(rng.normal(size=count) * 0.4)).clamp(max=-1e-3).requires_grad_(),
        "logp_mu": mu,
        "logp_old": old.clamp(max=-1e-3),
        "advantage": torch.tensor(rng.normal(size=count)),
        "episode": torch.tensor(np.repeat(np.arange(8), 8)),
        "turn": torch.zeros(count, dtype=torch.long),
    }
    return Tokens(**{**values, **changes})


def gradients(name: str, tokens: Tokens, **settings: Any) -> list[float]:
    """Return the gradient of each token's log-probability."""
    each, _ = losses.make(name, settings).tokens(tokens)
    (found,) = torch.autograd.grad(each.sum(), tokens.logp)
    return [float(one) for one in found]


def rows(tokens: Tokens) -> list[tuple[float, float, float, float]]:
    return [
        (float(a.detach()), float(b), float(c), float(d))
        for a, b, c, d in zip(tokens.logp, tokens.logp_mu, tokens.logp_old, tokens.advantage, strict=True)
    ]


def test_the_clipped_surrogate_has_the_gradient_its_cases_say() -> None:
    tokens = tokens_of()
    wanted = []
    for now, mu, old, advantage in rows(tokens):
        ratio, weight = math.exp(now - old), min(math.exp(old - mu), 2.0)
        outside = (advantage > 0 and ratio > 1.28) or (advantage < 0 and ratio < 0.8)
        capped = advantage < 0 and ratio > 3.0
        wanted.append(0.0 if outside or capped else -weight * ratio * advantage)
    assert gradients("ppo-clip", tokens, low=0.2, high=0.28, dual=3.0) == pytest.approx(wanted, abs=1e-9)


def test_cispo_never_drops_a_token() -> None:
    tokens = tokens_of()
    wanted = [
        -min(math.exp(now - old), 1.1) * min(math.exp(old - mu), 2.0) * advantage
        for now, mu, old, advantage in rows(tokens)
    ]
    found = gradients("cispo", tokens, high=0.1)
    assert found == pytest.approx(wanted, abs=1e-9)
    assert all(found)


def test_reinforce_is_the_weighted_policy_gradient() -> None:
    tokens = tokens_of()
    wanted = [-min(math.exp(old - mu), 2.0) * advantage for _, mu, old, advantage in rows(tokens)]
    assert gradients("reinforce", tokens) == pytest.approx(wanted, abs=1e-9)


def test_likelihood_is_weighted_by_its_stream() -> None:
    weight = torch.linspace(0, 1, 64, dtype=torch.float64)
    tokens = tokens_of(streams={"clone": weight})
    assert gradients("likelihood", tokens) == pytest.approx([-float(one) for one in weight])


def test_what_is_to_come_is_summed_within_an_episode() -> None:
    values = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0])
    assert to_come(values, torch.tensor([0, 0, 1, 1, 1])).tolist() == [3.0, 2.0, 28.0, 24.0, 16.0]


def tree(seed: int) -> dict[tuple[int, ...], torch.Tensor]:
    """Return a table of logits for every prefix of sequences of three tokens out of three."""
    rng = np.random.default_rng(seed)
    prefixes = [()] + [(a,) for a in range(3)] + [(a, b) for a in range(3) for b in range(3)]
    return {prefix: torch.tensor(rng.normal(size=3)) for prefix in prefixes}


def sequences() -> list[tuple[int, int, int]]:
    return [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]


def logps(table: dict[tuple[int, ...], torch.Tensor], sequence: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.log_softmax(table[sequence[:k]], -1)[sequence[k]] for k in range(len(sequence))]


def test_proximal_kl_stands_still_at_its_optimum_whoever_wrote_the_prefix() -> None:
    """The exact mean gradient over all sequences is 0 at p* proportional to p_old exp(R / b), under any sampler."""
    beta, rng = 0.7, np.random.default_rng(3)
    worth = {sequence: float(rng.normal()) for sequence in sequences()}
    old, sampler = tree(1), tree(2)
    mass = {s: math.exp(float(sum(logps(old, s))) + worth[s] / beta) for s in sequences()}
    best = {
        prefix: torch.tensor(
            [math.log(sum(m for s, m in mass.items() if s[: len(prefix) + 1] == (*prefix, k))) for k in range(3)]
        ).requires_grad_()
        for prefix in old
    }

    def gradient(table: dict[tuple[int, ...], torch.Tensor]) -> float:
        whole = torch.zeros((), dtype=torch.float64)
        for s in sequences():
            now, then, drawn = (torch.stack([p.double() for p in logps(t, s)]) for t in (table, old, sampler))
            tokens = Tokens(
                logp=now,
                logp_mu=drawn.detach(),
                logp_old=then.detach(),
                advantage=torch.full((3,), worth[s], dtype=torch.float64),
                episode=torch.zeros(3, dtype=torch.long),
                turn=torch.zeros(3, dtype=torch.long),
            )
            each, _ = losses.make("proximal-kl", {"beta": beta, "cap": 1e9, "bound": 1e9}).tokens(tokens)
            whole = whole + math.exp(float(drawn.sum())) * each.sum()
        found = torch.autograd.grad(whole, list(table.values()))
        return max(float(one.abs().max()) for one in found)

    assert gradient(best) < 1e-5
    assert gradient({prefix: one.clone().requires_grad_() for prefix, one in tree(9).items()}) > 1e-2


def test_klpo_stands_still_where_it_says() -> None:
    """Over one token the exact mean gradient, with its binary weight, is 0 at p* proportional to q exp(R / b)."""
    beta = 0.5
    sampled = torch.log_softmax(torch.tensor([0.3, -0.2], dtype=torch.float64), -1)
    worth = torch.tensor([0.4, -0.1], dtype=torch.float64)

    def gradient(logits: torch.Tensor) -> float:
        logits = logits.clone().requires_grad_()
        now = torch.log_softmax(logits, -1)
        nothing = torch.zeros(2, dtype=torch.long)
        tokens = Tokens(now, sampled, sampled, worth, nothing, nothing)
        each, _ = losses.make("klpo-binary", {"beta": beta}).tokens(tokens)
        (found,) = torch.autograd.grad((sampled.exp() * each).sum(), logits)
        return float(found.abs().max())

    best = sampled + worth / beta
    assert gradient(best) < 1e-6
    assert gradient(best + torch.tensor([0.5, 0.0])) > 1e-3
