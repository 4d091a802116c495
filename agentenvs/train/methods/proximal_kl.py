"""Proximal KL: the divergence still to come is part of what a token is worth.

The gradient of a token is ``stop(r (A - b F)) grad log p`` with ``r = p / q`` of the sampler's q, token by token, and
``F = sum over this and the later tokens of log(p / p_old)``, where p_old are the weights at the start of the update. At
the optimum ``p* proportional to p_old exp(R / b)`` the bracket is a function of the prefix alone, so the gradient is 0
on average whatever policy wrote the prefix; without the later tokens it is not. Rebuilt from the abstract of the paper
on future-KL credit; the stationary point is what the test holds. ``r`` is cut at ``cap``, ``F`` at ``bound``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from agentenvs.train.interfaces import Loss, Tokens, losses
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.methods.ppo_clip import BOUND


@losses.register
class ProximalKL(Loss):
    """The policy gradient with the divergence to come."""

    name = "proximal-kl"
    needs = frozenset(("batch.advantage", "token.logp_mu"))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        beta: float = 0.05
        cap: float = 2.0
        bound: float = 20.0

    config: Config

    def tokens(self, tokens: Tokens) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """See :class:`Loss`."""
        config, now = self.config, tokens.logp.detach()
        ratio = (now - tokens.logp_mu).clamp(-BOUND, BOUND).exp().clamp(max=config.cap)
        ahead = to_come(now - tokens.logp_old, tokens.episode).clamp(-config.bound, config.bound)
        worth = ratio * (tokens.advantage - config.beta * ahead)
        return -worth * tokens.logp, {"to_come": ahead, "weight": ratio}


def to_come(values: torch.Tensor, episode: torch.Tensor) -> torch.Tensor:
    """Return, for each token, the sum over it and the later tokens of its episode; tokens of one stand together."""
    if not len(values):
        return values
    sums = values.double().cumsum(0)
    last = torch.ones_like(episode, dtype=torch.bool)
    last[:-1] = episode[1:] != episode[:-1]
    ends = sums[last]
    which = torch.cumsum(last, 0) - last.long()
    return (ends[which] - sums + values).to(values.dtype)


recipe(
    Recipe(
        name="proximal-kl",
        title="Proximal KL with future-KL credit",
        source="rebuilt from the abstract; stationarity held by a test",
        provenance="like",
        credits=(("group-relative", {"deviation": True}),),
        loss=("proximal-kl", {}),
        aggregation="token-mean",
        sampler=("in-order", {"minibatches": 2}),
    )
)
