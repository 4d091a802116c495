"""WPM: progress towards the goal as a reward of turns, discounted so that it is not forgotten.

``r'_t = r_t + gamma Phi(s_{t+1}) - Phi(s_t)``, and ``G_t = sum_k (gamma rho)^(k-t) r'_k``: with rho = 1 the potentials
telescope and nothing but the outcome is left (Ng, Harada and Russell 1999); with rho < 1 what was reached on the way
keeps a weight. ``G`` is standardised over all turns of the group (arXiv 2610.09560). The paper's potential is a ladder
of milestones that a model judges; here it is the environment's own, exact one. It is 0 where an episode has ended by
itself, as shaping wants it; where it was cut, it is what it was.

``wpm-stream`` is ours: one episode a scenario. An exact potential tells good turns from bad ones without others of the
same scenario to hold them against, so a batch can hold as many scenarios as it has episodes, and its gradient is less
noisy for it. All turns of the batch are each other's baseline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentenvs.train.batch import Array, Batch, returns_to_go, spread
from agentenvs.train.interfaces import Credit, credits_
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.records import Episode

EPSILON = 1e-6


def shaped(episode: Episode, gamma: float, offset: float = 0.0) -> Array:
    """Return the reward of each turn with the difference of ``offset + Phi``; shape ``(turns,)``."""
    found = np.zeros(len(episode.turns))
    for place, turn in enumerate(episode.turns):
        last = place == len(episode.turns) - 1
        ahead = 0.0 if last and episode.ending == "terminated" else offset + (turn.next_potential or 0.0)
        found[place] = turn.reward + gamma * ahead - offset - (turn.potential or 0.0)
    return found


@credits_.register
class Progress(Credit):
    """Returns of turns over shaped rewards, against the group's turns or the batch's."""

    name = "progress"
    needs = frozenset(("episode.group", "turn.potential"))
    provides = frozenset(("batch.advantage",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        gamma: float = 0.99
        rho: float = 0.95
        """What is kept of the next turn's return, beside gamma."""
        offset: float = 0.0
        """Added to the potential of every state but the end. Where the potential counts what is left to do, from -1 to
        0, an offset of 1 makes it what the state is worth, so that success is not a leap beside the turns before it."""
        deviation: bool = True
        """Whether returns are divided by their standard deviation."""
        over: str = "group"
        """Whose turns are the baseline: those of the ``group``, or of the whole ``batch``."""

        def __post_init__(self) -> None:
            """Refuse what makes no sense."""
            if self.over not in ("group", "batch"):
                raise ValueError(f"over is 'group' or 'batch', not {self.over!r}")

    config: Config

    def required(self) -> frozenset[str]:
        """See :class:`Plugin`."""
        return self.needs if self.config.over == "group" else self.needs - {"episode.group"}

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        for members in batch.groups() if self.config.over == "group" else [list(range(len(batch.episodes)))]:
            returns = {index: self._returns(batch.episodes[index]) for index in members}
            values = np.concatenate([returns[index] for index in members])
            if not len(values):
                continue
            mean = float(values.mean()) if len(values) > 1 else 0.0
            divisor = spread(values) + EPSILON if self.config.deviation else 1.0
            for index in members:
                batch.paint(index, (returns[index] - mean) / divisor)

    def _returns(self, episode: Episode) -> Array:
        gamma = self.config.gamma
        return returns_to_go(shaped(episode, gamma, self.config.offset), gamma * self.config.rho)


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
recipe(
    Recipe(
        name="wpm-stream",
        title="WPM with exact potentials, one episode a scenario",
        source="our own variant of wpm",
        provenance="like",
        credits=(("progress", {"gamma": 1.0, "rho": 0.8, "offset": 1.0, "over": "batch"}),),
        sampler=("in-order", {"group_size": 1, "groups": 128}),
        aggregation="token-mean",
    )
)
