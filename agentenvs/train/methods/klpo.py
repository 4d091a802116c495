"""KLPO: regress the log-ratio on the return, with no clip, no group and no critic.

With ``l = log p - log q`` of the trainer's p and the sampler's q, and ``b`` the weight of the divergence, the loss of a
token is ``-stop(R - b l) stop(w) log p``. Over many tokens the optimum is ``p*`` proportional to ``q exp(Q/b)``. ``w``
stands for the part of the gradient that keeps p normalised: in this, the binary form, which needs nothing but the
probability of the sampled token, ``w = (1 - q) / (1 - p)``. Tokens of an episode are summed, episodes averaged. Source:
yifanzhang-pro/KLPO, docs/algorithms.md, token regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from agentenvs.train.batch import Batch
from agentenvs.train.interfaces import Credit, Loss, Tokens, credits_, losses
from agentenvs.train.methods import Recipe, recipe

LARGEST = 50.0
"""The most a token weighs: 1 - p is 0 in float32 where a token is certain."""


@losses.register
class KLPOBinary(Loss):
    """Token regression from the probability of the sampled token alone."""

    name = "klpo-binary"
    needs = frozenset(("batch.advantage", "token.logp_mu"))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        beta: float = 0.1

    config: Config

    def tokens(self, tokens: Tokens) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """See :class:`Loss`; the advantage is the return itself."""
        now = tokens.logp.detach()
        ratio = now - tokens.logp_mu
        chosen, left = -torch.expm1(tokens.logp_mu), -torch.expm1(now)
        weight = (chosen / left.clamp(min=1e-6)).clamp(max=LARGEST)
        target = tokens.advantage - self.config.beta * ratio
        return -target * weight * tokens.logp, {"log_ratio": ratio, "weight": weight}


@credits_.register
class Outcome(Credit):
    """The outcome itself, for every token."""

    name = "outcome"
    provides = frozenset(("batch.advantage",))

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        for index, worth in enumerate(batch.outcomes()):
            batch.paint(index, float(worth))


recipe(
    Recipe(
        name="klpo",
        title="KLPO, token regression, binary",
        source="yifanzhang-pro/KLPO, docs/algorithms.md",
        provenance="exact",
        credits=(("outcome", {}),),
        loss=("klpo-binary", {}),
        aggregation="response-sum",
    )
)
