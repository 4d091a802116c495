"""Gymnasium's face: the same episodes through ``gymnasium.make`` and the five-tuple ``step``.

The observation is the plain text; ``info`` holds ``invalid``, ``budgets``, and ``data`` and ``admissible`` where there
are any. Gymnasium's own ``Text`` space over Unicode takes seconds and hundreds of megabytes to build, so two small
spaces stand in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from agentenvs.core import registry
from agentenvs.core.actions import Calls, End, Malformed, Message, ToolCall, parse_action
from agentenvs.core.errors import OptionError
from agentenvs.core.observation import Observation
from agentenvs.core.playable import Playable
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.trace import StepTrace

_MARKER_BYTES = 64
_LETTERS = "abcdefghijklmnopqrstuvwxyz 0123456789"


class TextSpace(gymnasium.Space[str]):
    """All strings of at most ``max_bytes`` UTF-8 bytes, and of room for the marker of a cut."""

    def __init__(self, max_bytes: int, seed: int | np.random.Generator | None = None) -> None:
        self.max_bytes = max_bytes
        super().__init__((), None, seed)

    @classmethod
    def of(cls, spec: EnvSpec) -> TextSpace:
        """Return the observations of an environment."""
        # Each result block of a turn may carry a marker of its own.
        return cls(spec.max_observation_bytes + _MARKER_BYTES * (spec.max_calls - 1))

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return a short string of lower-case letters, digits and blanks."""
        size = int(self.np_random.integers(1, 32))
        return "".join(_LETTERS[int(i)] for i in self.np_random.integers(0, len(_LETTERS), size))

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is a string within the bound."""
        return isinstance(x, str) and len(x.encode(errors="replace")) <= self.max_bytes + _MARKER_BYTES

    @property
    def is_np_flattenable(self) -> bool:
        """Text has no fixed-size array."""
        return False

    def __eq__(self, other: object) -> bool:
        """Spaces of one bound are equal."""
        return isinstance(other, TextSpace) and other.max_bytes == self.max_bytes

    def __hash__(self) -> int:
        """Hash by the bound."""
        return hash(("TextSpace", self.max_bytes))

    def __repr__(self) -> str:
        """Return how it is made."""
        return f"TextSpace({self.max_bytes})"


class ActionSpace(gymnasium.Space[Any]):
    """Every action of an environment: text, and the JSON forms of tool calls, messages and ends."""

    def __init__(self, spec: EnvSpec, seed: int | np.random.Generator | None = None) -> None:
        self.spec = spec
        super().__init__((), None, seed)

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Return an example of a tool call, or short text where there are no tools."""
        examples = [
            {"tool": tool.name, "arguments": dict(example)} for tool in self.spec.tools for example in tool.examples
        ]
        if examples and ("text" not in self.spec.accepts or self.np_random.integers(2)):
            return examples[int(self.np_random.integers(len(examples)))]
        size = int(self.np_random.integers(1, 32))
        text = "".join(_LETTERS[int(i)] for i in self.np_random.integers(0, len(_LETTERS), size))
        return text if "text" in self.spec.accepts else {"message": text}

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is an action this environment takes (it may still be refused by the world)."""
        action = parse_action(x)
        if isinstance(action, Malformed):
            return False
        if isinstance(action, Calls):
            return "tool" in self.spec.accepts and len(action.calls) <= self.spec.max_calls
        kinds = {str: "text", ToolCall: "tool", Message: "message", End: "end"}
        return kinds[type(action)] in self.spec.accepts

    @property
    def is_np_flattenable(self) -> bool:
        """Actions have no fixed-size array."""
        return False

    def __eq__(self, other: object) -> bool:
        """Spaces of one environment are equal."""
        return isinstance(other, ActionSpace) and other.spec == self.spec

    def __hash__(self) -> int:
        """Hash by the environment's id."""
        return hash(("ActionSpace", self.spec.id))

    def __repr__(self) -> str:
        """Return whose space it is."""
        return f"ActionSpace({self.spec.id})"


class GymEnv(gymnasium.Env[str, Any]):
    """An environment behind ``gymnasium.Env``.

    ``reset(seed=…)`` plays scenario ``seed`` of the default split (modulo its size where it is finite);
    ``reset(options={"split": …, "index": …})`` plays exactly that one. Without either, the next draw of the
    environment's own generator decides.

    Args:
        env: The environment to show, here or behind a wire.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - Gymnasium reads it from the class

    def __init__(self, env: Playable, render_mode: str | None = None) -> None:
        self.core = env
        self.render_mode = render_mode
        self.observation_space = TextSpace.of(env.spec)
        self.action_space = ActionSpace(env.spec)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode; see the class.

        Raises:
            OptionError: ``options`` holds something other than ``split`` and ``index``.
            SplitError: No such scenario.
        """
        super().reset(seed=seed)
        observation = self.core.reset(self._choose(seed, options or {}))
        return observation.text, self._info({"invalid": False})

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play a turn; see :meth:`Environment.step`."""
        result = self.core.step(action)
        return (
            result.observation.text,
            result.reward,
            result.terminated,
            result.truncated,
            self._info(result.info),
        )

    def render(self) -> str | None:
        """Return the last observation where ``render_mode`` is ``ansi``."""
        return self.core.observation.text if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Give up what the environment holds."""
        self.core.close()

    @property
    def last_trace(self) -> StepTrace | None:
        """The last turn seen from inside; see :attr:`Environment.last_trace`."""
        return self.core.last_trace

    def _choose(self, seed: int | None, options: dict[str, Any]) -> TaskRef:
        return choose(self.core.spec, self.core.splits(), seed, options, lambda: self.np_random)

    def _info(self, info: dict[str, Any]) -> dict[str, Any]:
        return shown(info, self.core.observation)


def choose(
    spec: EnvSpec,
    splits: Mapping[str, SplitSpec],
    seed: int | None,
    options: Mapping[str, Any],
    generator: Callable[[], np.random.Generator],
) -> TaskRef:
    """Return the scenario that a reset asks for; see :class:`GymEnv`.

    Raises:
        OptionError: ``options`` holds something other than ``split`` and ``index``.
    """
    if unknown := [name for name in options if name not in ("split", "index")]:
        raise OptionError(f"reset has no option {unknown[0]!r}", fix='give {"split": …, "index": …}')
    split = options.get("split", spec.default_split)
    if not isinstance(split, str):
        raise OptionError(f"{split!r} is no name of a split", fix=f"its splits: {', '.join(splits)}")
    if "index" in options:
        index = options["index"]
        return TaskRef(split, int(index) if isinstance(index, np.integer) else index)
    size = splits[split].size if split in splits else None
    number = seed if seed is not None else int(generator().integers(2**31))
    return TaskRef(split, number if size is None else number % max(size, 1))


def shown(info: Mapping[str, Any], observation: Observation) -> dict[str, Any]:
    """Return the ``info`` of a turn with what else the player is told."""
    found: dict[str, Any] = {**info, "budgets": dict(observation.budgets)}
    if observation.admissible is not None:
        found["admissible"] = list(observation.admissible)
    return found


def make_gym(env_id: str, render_mode: str | None = None, **options: Any) -> GymEnv:
    """Make the Gymnasium face of an environment; Gymnasium's registry calls this."""
    return GymEnv(registry.make(env_id, **options), render_mode)
