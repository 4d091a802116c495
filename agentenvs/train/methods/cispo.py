"""CISPO: the weight of a token is clipped, never its gradient.

``-stop(min(r, 1 + high)) A log p`` with ``r = exp(logp - logp_old)`` (MiniMax 2025, M1, equation 4): no token drops out
of the gradient because its probability moved. There is no bound from below, as in the paper's experiments and in TRL.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from agentenvs.train.interfaces import Loss, Tokens, losses
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.methods.ppo_clip import BOUND, truncated


@losses.register
class CISPO(Loss):
    """The policy gradient under clipped weights."""

    name = "cispo"
    needs = frozenset(("batch.advantage",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        high: float = 4.0
        """The weight is at most 1 + this."""
        cap: float = 2.0
        """The most a token weighs for the sampler's sake."""

    config: Config

    def tokens(self, tokens: Tokens) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """See :class:`Loss`."""
        ratio = (tokens.logp - tokens.logp_old).clamp(-BOUND, BOUND).exp().detach()
        weight = ratio.clamp(max=1 + self.config.high) * truncated(tokens, self.config.cap)
        return -weight * tokens.advantage * tokens.logp, {"clipped": (ratio > 1 + self.config.high).float()}


recipe(
    Recipe(
        name="cispo",
        title="CISPO",
        source="MiniMax 2025 (MiniMax-M1), equation 4; TRL",
        provenance="exact",
        credits=(("group-relative", {"deviation": True}),),
        loss=("cispo", {}),
        aggregation="token-mean",
    )
)
