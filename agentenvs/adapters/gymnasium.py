"""Environments of Gymnasium's registry: text or discrete actions, any observation that has a JSON form."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium import spaces

from agentenvs.adapters.foreign import EngineError, Reply
from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError

NAMES: Mapping[str, tuple[str, ...]] = {
    "Acrobot": ("left", "none", "right"),
    "CartPole": ("left", "right"),
    "CliffWalking": ("up", "right", "down", "left"),
    "CliffWalkingSlippery": ("up", "right", "down", "left"),
    "FrozenLake": ("left", "down", "right", "up"),
    "FrozenLake8x8": ("left", "down", "right", "up"),
    "Blackjack": ("stick", "hit"),
    "MountainCar": ("left", "none", "right"),
    "Taxi": ("south", "north", "east", "west", "pickup", "dropoff"),
}
"""What the numbers of some well-known environments mean, from their documentation; others are called by number."""


class GymnasiumEngine:
    """An environment of the registry.

    Args:
        env_id: As ``gymnasium.make`` takes it.
        **options: Its arguments.

    Raises:
        ConfigError: There is none of that id, or it cannot be made.
    """

    def __init__(self, env_id: str, **options: Any) -> None:
        try:
            self.env: gymnasium.Env[Any, Any] = gymnasium.make(env_id, **options)
        except Exception as error:  # a boundary: an environment of others may raise anything when it is made
            newer = re.search(r"`([\w./-]+-v\d+)` instead", str(error))
            fix = f"agentenvs wrap gymnasium:{newer[1]}" if newer else "see gymnasium.pprint_registry()"
            raise ConfigError(f"gymnasium makes no {env_id!r}", why=str(error), fix=fix) from error

    def reset(self, seed: int) -> Reply:
        """Begin an episode."""
        try:
            shown, _ = self.env.reset(seed=seed)
        except Exception as error:
            raise EngineError(f"{type(error).__name__} in reset") from error
        return Reply(plain(shown))

    def step(self, action: JSON) -> Reply:
        """Play an action."""
        if not self.env.action_space.contains(action):
            return Reply("", refused="That is none of the actions.")
        try:
            shown, reward, terminated, truncated, _ = self.env.step(action)
        except Exception as error:
            raise EngineError(f"{type(error).__name__} in step") from error
        return Reply(plain(shown), float(reward), bool(terminated), bool(truncated))

    def close(self) -> None:
        """Close it."""
        self.env.close()


def actions_of(env: gymnasium.Env[Any, Any]) -> tuple[tuple[str, ...], int]:
    """Return what a player says for an environment's actions, and the first number; no names for a text space.

    Raises:
        ConfigError: Its actions are neither numbers nor text.
    """
    space = env.action_space
    if isinstance(space, spaces.Text):
        return (), 0
    if not isinstance(space, spaces.Discrete):
        raise ConfigError(
            f"the actions of {_id(env)} are a {type(space).__name__} space",
            why="a player of this suite says words or calls tools",
            fix="put a wrapper around it whose actions are a Discrete or Text space",
        )
    count, first = int(space.n), int(space.start)
    known = NAMES.get(_id(env).rpartition("/")[2].rpartition("-v")[0], ())
    return (known if len(known) == count else tuple(str(first + number) for number in range(count))), first


def plain(value: Any) -> JSON:
    """Return the JSON form of an observation; what is no finite number is its name."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | bool) or value is None else str(value)


def has_fractions(value: JSON) -> bool:
    """Whether a JSON value holds a number with a fraction."""
    if isinstance(value, dict):
        return any(map(has_fractions, value.values()))
    if isinstance(value, list):
        return any(map(has_fractions, value))
    return isinstance(value, float) and not value.is_integer()


def _id(env: gymnasium.Env[Any, Any]) -> str:
    return "" if env.spec is None else env.spec.id
