"""The clipped surrogate of PPO, and its dual clip: the loss most methods share.

``-min(r A, clip(r, 1-low, 1+high) A)`` with ``r = exp(logp - logp_old)`` (Schulman et al. 2017, equation 7). Where the
advantage is negative, dual clip bounds the loss by ``-c A`` (Ye et al. 2020, equation 5). Where the sampler's weights
were others than those the update began with, each token is weighted by ``min(exp(logp_old - logp_mu), cap)``, held
constant (truncated importance sampling, as in TRL and verl). The log-ratio is kept within ±20, as there. ``kl`` adds
the divergence from frozen weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from agentenvs.train.interfaces import Loss, Tokens, losses
from agentenvs.train.plugins import at_least

BOUND = 20.0
"""Log-ratios are kept within it before they are exponentiated."""


@losses.register
class PPOClip(Loss):
    """The clipped surrogate."""

    name = "ppo-clip"
    needs = frozenset(("batch.advantage",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        low: float = 0.2
        high: float = 0.2
        dual: float = 0.0
        """The bound ``c`` of dual clip, above 1; none where 0."""
        cap: float = 2.0
        """The most a token weighs for the sampler's sake."""
        kl: float = 0.0
        """What the divergence from frozen weights weighs; the signal ``reference`` scores with them."""

        def __post_init__(self) -> None:
            """Refuse what makes no sense."""
            at_least(self, 0, "low", "high", "cap", "kl")
            if self.dual and self.dual <= 1:
                raise ValueError("dual must be above 1, or 0 for none")

    config: Config

    def required(self) -> frozenset[str]:
        """See :class:`Plugin`."""
        return self.needs | {"token.logp_ref"} if self.config.kl else self.needs

    def tokens(self, tokens: Tokens) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """See :class:`Loss`."""
        config, advantage = self.config, tokens.advantage
        ratio = (tokens.logp - tokens.logp_old).clamp(-BOUND, BOUND).exp()
        clipped = ratio.clamp(1 - config.low, 1 + config.high)
        each = -torch.minimum(ratio * advantage, clipped * advantage)
        if config.dual:
            each = torch.where(advantage < 0, torch.minimum(each, -config.dual * advantage), each)
        weight = truncated(tokens, config.cap)
        metrics = {"clipped": (ratio != clipped).float(), "weight": weight}
        each = each * weight
        if config.kl:
            gap = (tokens.streams["logp_ref"] - tokens.logp).clamp(-BOUND, BOUND)
            metrics["kl_ref"] = divergence = gap.exp() - gap - 1
            each = each + config.kl * divergence
        return each, metrics


def truncated(tokens: Tokens, cap: float) -> torch.Tensor:
    """Return ``min(exp(logp_old - logp_mu), cap)`` of each token, without gradient."""
    gap = (tokens.logp_old - tokens.logp_mu).clamp(-BOUND, BOUND)
    return gap.exp().clamp(max=cap).detach()
