"""Which scenario an episode plays, and what a player is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from agentenvs.core.canon import JSON


@dataclass(frozen=True, slots=True)
class TaskRef:
    """The address of a scenario."""

    split: str
    index: int
    """Index in a finite split, the seed in an endless one."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {"split": self.split, "index": self.index}


@dataclass(frozen=True, slots=True)
class Task:
    """What a policy is told before its first observation. No secret of the scenario is in it."""

    env: str
    ref: TaskRef
    options: Mapping[str, JSON] = field(default_factory=dict)
    instruction: str = ""
    """The task sentence, where it stands apart from the first observation."""


class Scenario(Protocol):
    """Frozen data: the initial world and its hidden goal.

    Fields that must stay hidden carry ``metadata=SECRET``.
    """

    @property
    def name(self) -> str:
        """A readable name; may give the goal away, so it is shown only after the end."""

    @property
    def digest(self) -> str:
        """SHA-256 of everything that is so at the start, and of the goal."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form the digest is made of."""


SECRET: Mapping[str, bool] = {"secret": True}
"""Metadata of a dataclass field that must not reach a player before a rule reveals it."""
