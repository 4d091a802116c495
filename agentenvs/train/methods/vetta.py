"""VETTA: a value for each turn and one for each token; turns carry the credit, tokens spread it within a turn.

``A_kj = A_k + alpha (a_kj - mean_j a_kj)``: ``A_k`` is the generalised advantage over turns (gamma = lambda = 0.95),
``a_kj`` that over tokens (gamma = lambda = 1), so the mean over a turn's tokens is the turn's. Both heads learn
``V + A``. The loss clips from below, too (c = 3). Source: arXiv 2610.08402, from its description.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentenvs.train.batch import Batch
from agentenvs.train.interfaces import Credit, credits_
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.methods.ppo import generalised, token_values, write_tokens


@credits_.register
class TurnsAndTokens(Credit):
    """Advantages of turns, spread over their tokens."""

    name = "turns-and-tokens"
    needs = frozenset(("token.value", "turn.value"))
    provides = frozenset(("batch.advantage",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        gamma: float = 0.95
        decay: float = 0.95
        alpha: float = 1.0

    config: Config

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        for index, episode in enumerate(batch.episodes):
            rewards = np.array([turn.reward for turn in episode.turns])
            values = np.array([turn.signals["value"] for turn in episode.turns])
            by_turn = generalised(rewards, values, self.config.gamma, self.config.decay)
            for turn, value, advantage in zip(episode.turns, values, by_turn, strict=True):
                turn.signals["value_target"] = float(value + advantage)
            of_tokens, token_worth, places = token_values(episode)
            by_token = generalised(of_tokens, token_worth, 1.0, 1.0)
            fused = by_token.copy()
            start = 0
            for length, advantage in zip(batch.turn_lengths(index).astype(int), by_turn, strict=True):
                span = slice(start, start + length)
                if length:
                    fused[span] = advantage + self.config.alpha * (by_token[span] - by_token[span].mean())
                start += length
            write_tokens(batch, index, places, fused, token_worth + by_token)


recipe(
    Recipe(
        name="vetta",
        title="VETTA",
        source="arXiv 2610.08402, from its description",
        provenance="described",
        signals=(("critic", {}),),
        credits=(("turns-and-tokens", {}),),
        loss=("ppo-clip", {"dual": 3.0}),
        aggregation="token-mean",
    )
)
