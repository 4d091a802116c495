"""What an episode was worth, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from agentenvs.core.canon import JSON

Ending: TypeAlias = Literal["terminated", "truncated", "abandoned", "aborted"]
"""``terminated``: the world came to its end. ``truncated``: a limit. ``abandoned``: the player went away.
``aborted``: the environment or its host failed."""

ENDINGS: tuple[Ending, ...] = get_args(Ending)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an episode was worth."""

    reward: float
    """The return of the task: what is paid on the ending step."""
    success: bool
    components: Mapping[str, float] = field(default_factory=dict)
    """Named parts of the reward."""
    reasons: tuple[str, ...] = ()
    """Why, for people; one short sentence each."""
    facts: Mapping[str, JSON] = field(default_factory=dict)
    """The outcome the verdict was computed from; with the scenario, enough to compute it again."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {
            "reward": self.reward,
            "success": self.success,
            "components": dict(self.components),
            "reasons": list(self.reasons),
            "facts": dict(self.facts),
        }

    @classmethod
    def from_json(cls, form: Mapping[str, JSON]) -> Verdict:
        """Read back what :meth:`to_json` wrote."""
        return cls(
            float(form["reward"]),
            bool(form["success"]),
            dict(form["components"]),
            tuple(form["reasons"]),
            dict(form["facts"]),
        )
