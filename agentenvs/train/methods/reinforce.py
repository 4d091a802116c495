"""The plain policy gradient, and RLOO upon it.

``-A log p``, each token weighted for the sampler's sake (Williams 1992). RLOO's advantage is the outcome less the mean
of the others of its group (Ahmadian et al. 2024, Back to basics, equation 6); one alone keeps its outcome.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from agentenvs.train.batch import Batch
from agentenvs.train.interfaces import Credit, Loss, Tokens, credits_, losses
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.methods.ppo_clip import truncated


@losses.register
class Reinforce(Loss):
    """The policy gradient."""

    name = "reinforce"
    needs = frozenset(("batch.advantage",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        cap: float = 2.0
        """The most a token weighs for the sampler's sake."""

    config: Config

    def tokens(self, tokens: Tokens) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """See :class:`Loss`."""
        weight = truncated(tokens, self.config.cap)
        return -weight * tokens.advantage * tokens.logp, {"weight": weight}


@credits_.register
class LeaveOneOut(Credit):
    """Outcomes less the mean of the others of their group."""

    name = "leave-one-out"
    needs = frozenset(("episode.group",))
    provides = frozenset(("batch.advantage",))

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        worth = batch.outcomes()
        for group in batch.groups():
            others = max(len(group) - 1, 1)
            total = float(worth[group].sum())
            for index in group:
                rest = (total - float(worth[index])) / others
                batch.paint(index, float(worth[index]) - rest)


recipe(
    Recipe(
        name="rloo",
        title="RLOO",
        source="Ahmadian et al. 2024 (Back to basics), equation 6; the gradient of Williams 1992",
        provenance="exact",
        credits=(("leave-one-out", {}),),
        loss=("reinforce", {}),
        aggregation="response-sum",
    )
)
