"""Turns that think before they act: the model writes what it likes, and what stands in a tag is played."""

from __future__ import annotations

from dataclasses import dataclass

from agentenvs.core.observation import Observation
from agentenvs.train.interfaces import RolloutHook, hooks
from agentenvs.train.records import Episode, Turn


@hooks.register
class Answer(RolloutHook):
    """Plays what stands between the last ``<action>`` and its end; a turn without them is played as it is.

    All tokens of a turn are trained on, the thinking too.
    """

    name = "answer"

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        tag: str = "action"
        says: str = (
            "Think step by step first, inside <think> </think>. "
            "Then give one action inside <{tag}> </{tag}>; it is all that is played."
        )
        """Said before the first turn; ``{tag}`` is the tag."""

    config: Config

    def begin(self, episode: Episode, observation: Observation) -> str:
        """See :class:`RolloutHook`."""
        return self.config.says.replace("{tag}", self.config.tag)

    def played(self, episode: Episode, turn: Turn, said: str) -> str:
        """See :class:`RolloutHook`."""
        _, found, rest = said.rpartition(f"<{self.config.tag}>")
        return rest.partition(f"</{self.config.tag}>")[0].strip() if found else said
