"""The Tinker cookbook: an ``Env`` over token ids, group builders, and a dataset of them.

A renderer of the cookbook turns messages into tokens and back. All environments of a group play one scenario. Numbers
of a turn are its ``metrics``, the keys of states its ``logs``.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from agentenvs.adapters.plugs.episode import Episode, Heard, outcome
from agentenvs.adapters.plugs.lazy import attributes, needed
from agentenvs.core.canon import JSON
from agentenvs.core.task import TaskRef

_COOKBOOK = "tinker-cookbook"


class World(NamedTuple):
    """Where a plug's episodes come from."""

    env: str
    url: str = ""
    options: tuple[tuple[str, Any], ...] = ()

    def episode(self) -> Episode:
        """Make one.

        Raises:
            UserError: As for :func:`agentenvs.make`.
        """
        return Episode(self.env, url=self.url or None, **dict(self.options))


@functools.cache
def _env() -> type:
    types = needed("tinker_cookbook.rl.types", _COOKBOOK)

    class WorldEnv(types.Env):  # type: ignore[misc, name-defined]
        """One episode."""

        def __init__(self, world: World, ref: TaskRef, renderer: Any) -> None:
            self._world, self._ref, self._renderer = world, ref, renderer
            self._episode: Episode | None = None
            self._messages: list[dict[str, JSON]] = []

        async def initial_observation(self) -> Any:
            """Begin, and return the prompt and what stops a reply."""
            self._episode = await asyncio.to_thread(self._world.episode)
            self._messages = await asyncio.to_thread(self._episode.messages, self._ref)
            return self._prompt(), self._renderer.get_stop_sequences()

        async def step(self, action: Any, *, extra: Any = None) -> Any:
            """Play a reply."""
            if self._episode is None:
                raise RuntimeError("initial_observation() comes first")
            message, _ = self._renderer.parse_response(action)
            content = message["content"]
            words = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            heard = await self._episode.asay(words)
            self._messages += [message, {"role": "user", "content": heard.text}]
            metrics, logs = _told(heard)
            if heard.done:
                metrics.update(outcome(self._episode.verdict()))
                await asyncio.to_thread(self._episode.close)
            return types.StepResult(
                reward=heard.reward,
                episode_done=heard.done,
                next_observation=self._prompt(),
                next_stop_condition=self._renderer.get_stop_sequences(),
                metrics=metrics,
                logs=logs,
            )

        def _prompt(self) -> Any:
            return self._renderer.build_generation_prompt(self._messages)

    return WorldEnv


@functools.cache
def _builder() -> type:
    types = needed("tinker_cookbook.rl.types", _COOKBOOK)

    class WorldGroupBuilder(types.EnvGroupBuilder):  # type: ignore[misc, name-defined]
        """A group of episodes of one scenario."""

        def __init__(self, world: World, ref: TaskRef, renderer: Any, size: int) -> None:
            self.world, self.ref, self.renderer, self.size = world, ref, renderer, size

        async def make_envs(self) -> Sequence[Any]:
            """Return its environments."""
            return [_env()(self.world, self.ref, self.renderer) for _ in range(self.size)]

        def logging_tags(self) -> list[str]:
            """Return the name under which its numbers are told."""
            return [self.world.env]

    return WorldGroupBuilder


@functools.cache
def _dataset() -> type:
    types = needed("tinker_cookbook.rl.types", _COOKBOOK)

    class WorldDataset(types.RLDataset):  # type: ignore[misc, name-defined]
        """Scenarios of a split, in batches of groups."""

        def __init__(
            self, world: World, refs: Sequence[TaskRef], renderer: Any, *, batch: int = 8, group: int = 4
        ) -> None:
            self._groups = [_builder()(world, ref, renderer, group) for ref in refs]
            self._batch = batch

        def get_batch(self, index: int) -> Sequence[Any]:
            """Return a batch."""
            return self._groups[index * self._batch : (index + 1) * self._batch]

        def __len__(self) -> int:
            """Return the number of batches."""
            return -(-len(self._groups) // self._batch)

    return WorldDataset


def _told(heard: Heard) -> tuple[dict[str, float], dict[str, str]]:
    numbers = {"valid": float(bool(heard.facts["valid"])), "turn": float(str(heard.facts["turn"]))}
    if (potential := heard.facts.get("potential")) is not None:
        numbers["potential"] = float(potential)
    return numbers, {name: str(heard.facts[name]) for name in ("state_before", "state_key") if name in heard.facts}


__getattr__ = attributes(
    __name__, {"WorldEnv": _env, "WorldGroupBuilder": _builder, "WorldDataset": _dataset}, globals()
)
