"""Cloning: the likelihood of what a demonstrator did.

``-log p(token)`` over the tokens of demonstrations (Pomerleau 1991). Observations may be learned too, at a smaller
weight (stream ``clone``): a model of a few hundred thousand weights learns faster what to do when it also learns what
will be seen.
"""

from __future__ import annotations

import torch

from agentenvs.train.interfaces import Loss, Tokens, losses
from agentenvs.train.methods import Recipe, recipe


@losses.register
class Likelihood(Loss):
    """Negative log-likelihood, weighted by the stream ``clone`` where it is there."""

    name = "likelihood"

    def tokens(self, tokens: Tokens) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """See :class:`Loss`."""
        weight = tokens.streams.get("clone", torch.ones_like(tokens.logp))
        return -weight * tokens.logp, {}


recipe(
    Recipe(
        name="clone",
        title="Cloning",
        source="Pomerleau 1991 (Efficient training of artificial neural networks for autonomous navigation)",
        provenance="exact",
        credits=(),
        loss=("likelihood", {}),
    )
)
