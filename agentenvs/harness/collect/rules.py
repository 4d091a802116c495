"""Which episodes are kept, by rules that are written down beside the data.

An episode is dropped for the first reason that applies, in the order of :data:`REASONS`, so that the counts add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite

from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError

REASONS: Mapping[str, str] = {
    "failed": "it failed outside the world, or was cut from outside",
    "not_won": "it was not won",
    "low_reward": "its reward is below the least",
    "too_long": "it has too many turns",
    "no_turn": "nothing was done in it",
    "invalid_turn": "the world refused an action",
    "unreadable_reply": "a reply broke the protocol's format, or was cut",
    "asked_again": "a model was asked more than once in a turn",
    "not_replayed": "playing the record again led elsewhere, or the record is damaged",
    "not_sayable": "an action has no reply that would be read as it",
    "other_prompt": "the model was shown something else than the whole conversation",
    "duplicate": "the same states and actions were kept already",
    "over_the_cap": "enough episodes of its scenario were kept already",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """What is asked of an episode.

    Raises:
        ConfigError: A rule that makes no sense.
    """

    won: bool = True
    """Whether only won episodes are kept."""
    min_reward: float | None = None
    max_turns: int | None = None
    valid: bool = True
    """Whether an episode with a refused action is dropped."""
    distinct: bool = True
    """Whether the same states and actions are kept once."""
    per_scenario: int | None = None
    """Episodes of one scenario that are kept at most."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.min_reward is not None and not isfinite(self.min_reward):
            raise ConfigError(f"a least reward of {self.min_reward} makes no sense")
        for name in ("max_turns", "per_scenario"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name.replace('_', ' ')} {value} keeps nothing", fix="give 1 or more")

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return asdict(self)

    def refuses(self, episode: Mapping[str, JSON]) -> str | None:
        """Return why an episode is dropped by what its summary line says; None where it is not."""
        if episode["error"] is not None or episode["stopped"] is not None:
            return "failed"
        if self.won and not episode["success"]:
            return "not_won"
        if self.min_reward is not None and episode["reward"] < self.min_reward:
            return "low_reward"
        if self.max_turns is not None and episode["turns"] > self.max_turns:
            return "too_long"
        if episode["turns"] < 1:
            return "no_turn"
        return "invalid_turn" if self.valid and episode["invalid"] else None
