"""GRPO: the outcome of an episode against those of its group.

``A_i = (R_i - mean R) / (std R + ε)`` over the group, for all tokens of the episode (Shao et al. 2024, DeepSeekMath,
section 4.1.2), with the unbiased deviation, and ``A_i = R_i`` for a group of one, as verl and TRL have it. The original
loss is the mean over episodes of the mean over their tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentenvs.train.batch import Batch, spread
from agentenvs.train.interfaces import Credit, credits_
from agentenvs.train.methods import Recipe, recipe

EPSILON = 1e-6


@credits_.register
class GroupRelative(Credit):
    """Outcomes less their group's mean."""

    name = "group-relative"
    needs = frozenset(("episode.group",))
    provides = frozenset(("batch.advantage",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        deviation: bool = True
        """Whether they are divided by the group's standard deviation."""

    config: Config

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        telling = 0
        groups, worth = batch.groups(), batch.outcomes()
        for group in groups:
            outcomes = worth[group]
            centred = outcomes - (outcomes.mean() if len(group) > 1 else 0.0)
            if self.config.deviation:
                centred = centred / (spread(outcomes) + EPSILON)
            telling += bool(np.ptp(outcomes) > 0)
            for index, advantage in zip(group, centred, strict=True):
                batch.paint(index, float(advantage))
        batch.metrics["groups_telling"] = telling / max(len(groups), 1)


recipe(
    Recipe(
        name="grpo",
        title="GRPO",
        source="Shao et al. 2024 (DeepSeekMath), section 4.1.2; verl core_algos.py; TRL GRPOTrainer",
        provenance="exact",
        credits=(("group-relative", {"deviation": True}),),
        aggregation="sequence-mean",
    )
)
recipe(
    Recipe(
        name="dr-grpo",
        title="Dr. GRPO",
        source="Liu et al. 2025 (Understanding R1-Zero-like training), section 3.2: no deviation, a constant length",
        provenance="exact",
        credits=(("group-relative", {"deviation": False}),),
        aggregation="constant",
    )
)
