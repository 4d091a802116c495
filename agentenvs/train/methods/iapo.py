"""IAPO: an episode's advantage goes to the turns whose information was used, or whose mistakes were repeated.

A graph over the turns of an episode. Turn i supports turn j where j used a fact that was first seen after turn i; facts
that stood in the first observation count as evidence of the turn that used them. Turn i fails turn j where i was
invalid and j was invalid again with the same action in the same state, or the same error. With out-degrees ``d+``,
``d-``, incoming evidence ``d_in`` and ``e`` whether a turn was invalid:

    phi+ = log(1 + d+ + d_in)        phi- = log(1 + e (1 + d- + d_in))
    z = (phi - mean) / (sd + 1e-6), mean and deviation weighted by the turns' tokens
    m = exp(clip(z, -c, c)) / mean of exp(clip(z, -c, c)) over tokens
    A > 0:  w_i = L m+_i exp(-b (phi-_i - mean phi-)) / sum_j L_j m+_j exp(-b (phi-_j - mean phi-))
    A < 0:  w_i = m-_i

Source: arXiv 2608.24588, equations 3 to 7, which has a language model annotate the graph; here the environment tells
it, from the provenance of facts. Weights average to one over the tokens; a graph that tells nothing changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentenvs.train.batch import Array, Batch
from agentenvs.train.interfaces import Credit, credits_
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.records import Turn


@dataclass(frozen=True, slots=True)
class Graph:
    """Degrees of the turns of an episode; all arrays of shape ``(turns,)``."""

    support: Array
    failure: Array
    evidence: Array
    error: Array


def graph(turns: Sequence[Turn]) -> Graph:
    """Return the degrees of each turn."""
    count = len(turns)
    support, failure, evidence = np.zeros(count), np.zeros(count), np.zeros(count)
    error = np.array([0.0 if turn.valid else 1.0 for turn in turns])
    for later, turn in enumerate(turns):
        givers = {fact.first_seen for fact in turn.used if fact.first_seen is not None}
        for giver in sorted(givers):
            if giver == 0:
                evidence[later] += 1
            elif giver - 1 < later:  # turns are counted from 1
                support[giver - 1] += 1
                evidence[later] += 1
        for earlier in range(later):
            if _repeats(turns[earlier], turn):
                failure[earlier] += 1
    return Graph(support, failure, evidence, error)


def _repeats(first: Turn, second: Turn) -> bool:
    if first.valid or second.valid:
        return False
    same = first.state_key == second.state_key and first.action == second.action
    return same or (first.error is not None and first.error == second.error)


def weights(turns: Sequence[Turn], lengths: Array, advantage: float, clip: float, beta: float) -> Array:
    """Return what each turn's advantage is multiplied with; shape ``(turns,)``."""
    found = graph(turns)
    plus = np.log1p(found.support + found.evidence)
    minus = np.log1p(found.error * (1 + found.failure + found.evidence))
    if advantage < 0:
        return _shares(minus, lengths, clip)
    mean = _weighted(minus, lengths)
    shares = _shares(plus, lengths, clip) * np.exp(-beta * (minus - mean))
    whole = float((lengths * shares).sum())
    return shares * lengths.sum() / whole if whole > 0 else np.ones(len(turns))


def _shares(values: Array, lengths: Array, clip: float) -> Array:
    mean = _weighted(values, lengths)
    deviation = np.sqrt(_weighted((values - mean) ** 2, lengths))
    raised = np.exp(np.clip((values - mean) / (deviation + 1e-6), -clip, clip))
    return np.asarray(raised / _weighted(raised, lengths), dtype=np.float64)


def _weighted(values: Array, lengths: Array) -> float:
    whole = float(lengths.sum())
    return float((values * lengths).sum()) / whole if whole > 0 else float(values.mean())


@credits_.register
class InformationFlow(Credit):
    """Shares an episode's advantage out among its turns by provenance."""

    name = "information-flow"
    kind = "reweighter"
    needs = frozenset(("batch.advantage", "turn.facts", "turn.valid"))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        clip: float = 1.0
        beta: float = 0.5
        """How much a mistake takes from a turn's share of a success."""

    config: Config

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        told = 0
        for index, episode in enumerate(batch.episodes):
            if not episode.turns:
                continue
            first = episode.turns[0]
            advantage = float(batch.advantages[index][first.segment][first.start : first.end].sum())
            shares = weights(episode.turns, batch.turn_lengths(index), advantage, self.config.clip, self.config.beta)
            told += bool(np.ptp(shares) > 1e-9)
            batch.scale(index, shares)
        batch.metrics["graphs_telling"] = told / max(len(batch.episodes), 1)


recipe(
    Recipe(
        name="iapo",
        title="IAPO",
        source="arXiv 2608.24588, equations 3 to 7; edges from the environment's provenance of facts",
        provenance="exact",
        credits=(("group-relative", {"deviation": True}), ("information-flow", {})),
        aggregation="token-mean",
    )
)
