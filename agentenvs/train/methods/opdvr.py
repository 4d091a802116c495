"""OPDVR: learn from a teacher only where the verdict agrees with it.

Of a token that the policy sampled, with the teacher's ``l_T`` and its own ``l``: in an episode that succeeded the
advantage is ``max(0, l_T - l)``, in one that failed ``-max(0, l - l_T)`` (LeapLabTHU/OPDVR, README). GRPD multiplies it
with the size of the group's centred outcome. The teacher is another model with the same tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentenvs.train.batch import Batch
from agentenvs.train.interfaces import Credit, Engine, Signal, credits_, signals
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.records import Episode


@signals.register
class Teacher(Signal):
    """Scores every token with another model; writes the stream ``logp_teacher``."""

    name = "teacher"
    provides = frozenset(("token.logp_teacher",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        folder: str = ""
        """A folder of a model with the same tokenizer."""
        kept: str = "start"
        """Where there is no folder: weights that the engine keeps; ``start`` are those it began reinforcement with."""

    config: Config

    def compute(self, episodes: Sequence[Episode], engine: Engine) -> dict[str, float]:
        """See :class:`Signal`."""
        name = self._taken(engine) if self.config.folder else self.config.kept
        segments = [segment for episode in episodes for segment in episode.segments]
        found = engine.score([one.ids for one in segments], name, [one.candidates for one in segments])
        for segment, scored in zip(segments, found, strict=True):
            segment.streams["logp_teacher"] = scored
        gaps = [float((one.streams["logp_teacher"] - one.logp_mu)[one.loss_mask].sum()) for one in segments]
        count = sum(int(one.loss_mask.sum()) for one in segments)
        return {"gap": sum(gaps) / max(count, 1)}

    def _taken(self, engine: Engine) -> str:
        """Read the teacher into the engine once, and return its name there."""
        name = f"teacher {self.config.folder}"
        if not engine.keeps(name):
            from agentenvs.train import models

            engine.take(name, models.load(self.config.folder)[0])
        return name


@credits_.register
class TeacherWhereRight(Credit):
    """The teacher's pull where the verdict agrees with it."""

    name = "teacher-where-right"
    needs = frozenset(("token.logp_teacher", "token.logp_mu", "episode.success"))
    provides = frozenset(("batch.advantage",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        grouped: bool = False
        """Multiply with the size of the outcome less its group's mean (GRPD)."""

    config: Config

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        size = self._sizes(batch)
        for index, place, segment in batch.segments():
            pull = segment.streams["logp_teacher"] - segment.logp_mu
            right = batch.episodes[index].success
            advantage = np.maximum(pull, 0.0) if right else np.minimum(pull, 0.0)
            batch.advantages[index][place][:] = np.where(segment.loss_mask, advantage * np.float32(size[index]), 0.0)

    def _sizes(self, batch: Batch) -> dict[int, float]:
        if not self.config.grouped:
            return dict.fromkeys(range(len(batch.episodes)), 1.0)
        worth = batch.outcomes()
        return {index: abs(float(worth[index] - worth[group].mean())) for group in batch.groups() for index in group}


recipe(
    Recipe(
        name="opdvr",
        title="OPDVR",
        source="LeapLabTHU/OPDVR, README",
        provenance="exact",
        signals=(("teacher", {}),),
        credits=(("teacher-where-right", {}),),
        loss=("reinforce", {}),
        aggregation="token-mean",
    )
)
