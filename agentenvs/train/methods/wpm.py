"""WPM: progress towards the goal as a reward of turns, discounted so that it is not forgotten.

``r'_t = r_t + gamma Phi(s_{t+1}) - Phi(s_t)``, and ``G_t = sum_k (gamma rho)^(k-t) r'_k``: with rho = 1 the potentials
telescope and nothing but the outcome is left (Ng, Harada and Russell 1999); with rho < 1 what was reached on the way
keeps a weight. ``G`` is standardised over all turns of the group (arXiv 2610.09560). The paper's potential is a ladder
of milestones that a model judges; here it is the environment's own, exact one. It is 0 where an episode has ended by
itself, as shaping wants it; where it was cut, it is what it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentenvs.train.batch import Array, Batch, returns_to_go, spread
from agentenvs.train.interfaces import Credit, credits_
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.records import Episode

EPSILON = 1e-6


def shaped(episode: Episode, gamma: float) -> Array:
    """Return the reward of each turn with the difference of potentials; shape ``(turns,)``."""
    found = np.zeros(len(episode.turns))
    for place, turn in enumerate(episode.turns):
        last = place == len(episode.turns) - 1
        ahead = 0.0 if last and episode.ending == "terminated" else (turn.next_potential or 0.0)
        found[place] = turn.reward + gamma * ahead - (turn.potential or 0.0)
    return found


@credits_.register
class Progress(Credit):
    """Returns of turns over shaped rewards, against the group's turns."""

    name = "progress"
    needs = frozenset(("episode.group", "turn.potential"))
    provides = frozenset(("batch.advantage",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        gamma: float = 0.99
        rho: float = 0.95
        deviation: bool = True

    config: Config

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        gamma, rho = self.config.gamma, self.config.rho
        for group in batch.groups():
            returns = {index: returns_to_go(shaped(batch.episodes[index], gamma), gamma * rho) for index in group}
            values = np.concatenate([returns[index] for index in group])
            if not len(values):
                continue
            mean = float(values.mean()) if len(values) > 1 else 0.0
            divisor = spread(values) + EPSILON if self.config.deviation else 1.0
            for index in group:
                batch.paint(index, (returns[index] - mean) / divisor)


recipe(
    Recipe(
        name="wpm",
        title="WPM with exact potentials",
        source="arXiv 2610.09560, from its description; Ng, Harada and Russell 1999 for the potentials",
        provenance="described",
        credits=(("progress", {}),),
        aggregation="token-mean",
    )
)
