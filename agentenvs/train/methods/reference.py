"""Staying near where reinforcement began: log-probabilities under frozen weights, for the loss's KL (``kl``).

The estimate of the divergence is ``exp(l_ref - l) - (l_ref - l) - 1`` a token (Schulman's k3; ``low_var_kl`` in verl).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentenvs.train.interfaces import Engine, Signal, signals
from agentenvs.train.records import Episode


@signals.register
class Reference(Signal):
    """Scores every token with weights that the engine keeps; writes the stream ``logp_ref``."""

    name = "reference"
    provides = frozenset(("token.logp_ref",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        kept: str = "start"
        """``start``: the weights that reinforcement began with."""

    config: Config

    def compute(self, episodes: Sequence[Episode], engine: Engine) -> dict[str, float]:
        """See :class:`Signal`."""
        segments = [segment for episode in episodes for segment in episode.segments]
        found = engine.score([one.ids for one in segments], self.config.kept, [one.candidates for one in segments])
        for segment, scored in zip(segments, found, strict=True):
            segment.streams["logp_ref"] = scored
        return {}
