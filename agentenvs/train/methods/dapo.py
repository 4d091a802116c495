"""DAPO: clip higher, count tokens, train on groups that tell something, and be soft on what runs long.

The ratio may rise further than it may fall; the loss is the mean over all tokens of the batch; groups whose outcomes
are all alike are drawn again; and an episode whose turns run into the limit of their length is worth less, in a line,
over the last ``soft`` of it (Yu et al. 2025, equations 8 to 13).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentenvs.train.interfaces import Engine, Signal, signals
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.plugins import at_least
from agentenvs.train.records import Episode


@signals.register
class Overlong(Signal):
    """Takes from an episode what its length costs, as ``extras["penalty"]``."""

    name = "overlong"

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        limit: int = 0
        """The most tokens the policy may write in an episode; no penalty where 0."""
        soft: int = 128
        """Over the last so many of them the penalty falls from 0 to -1."""

        def __post_init__(self) -> None:
            """Refuse what makes no sense."""
            at_least(self, 0, "limit")
            at_least(self, 1, "soft")

    config: Config

    def compute(self, episodes: Sequence[Episode], engine: Engine) -> dict[str, float]:
        """See :class:`Signal`."""
        limit, soft = self.config.limit, self.config.soft
        if not limit:
            return {}
        cost = 0.0
        for episode in episodes:
            over = episode.tokens - (limit - soft)
            penalty = -min(max(over / soft, 0.0), 1.0)
            episode.extras["penalty"] = penalty
            cost -= penalty
        return {"penalty": -cost / max(len(episodes), 1)}


recipe(
    Recipe(
        name="dapo",
        title="DAPO",
        source="Yu et al. 2025 (DAPO), equations 8 to 13; verl's recipe",
        provenance="exact",
        signals=(("overlong", {}),),
        credits=(("group-relative", {"deviation": True}),),
        loss=("ppo-clip", {"low": 0.2, "high": 0.28}),
        sampler=("in-order", {"informative": True}),
        aggregation="token-mean",
    )
)
