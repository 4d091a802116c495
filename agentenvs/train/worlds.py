"""The environments of a run: some slots of each, in this process or on a server, behind one face.

A mixture is several environments with weights; every slot plays one episode at a time. What an episode's turn did to
the world comes along (:class:`~agentenvs.core.trace.StepTrace`) where the environment or its server tells, and an
environment that fails takes only its own episode with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, ConfigError, UserError
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.trace import StepTrace
from agentenvs.core.turn import StepResult
from agentenvs.core.verdict import Ending, Verdict
from agentenvs.train.plugins import at_least


class Player(Protocol):
    """An environment, in process or on a server."""

    spec: EnvSpec

    def reset(self, ref: TaskRef | None = None) -> Observation:
        """Begin an episode."""

    def step(self, action: Any) -> StepResult:
        """Play a turn."""

    def finish(self, ending: Ending) -> Verdict:
        """End the episode."""

    def close(self) -> None:
        """Give it up."""

    @property
    def last_trace(self) -> StepTrace | None:
        """The last turn seen from inside."""

    @property
    def verdict(self) -> Verdict | None:
        """What the episode was worth, once it has ended."""


@dataclass(frozen=True)
class WorldConfig:
    """One environment of a mixture."""

    env: str = "household"
    """Id, slug, or what else names an environment."""
    split: str = "train"
    first: int = 0
    """The first index or seed that is drawn."""
    count: int | None = None
    """How many; without end where None."""
    weight: float = 1.0
    url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        at_least(self, 0, "first", "weight")
        at_least(self, 1, "count")


@dataclass(slots=True)
class Answer:
    """What came of a turn."""

    result: StepResult | None
    trace: StepTrace | None
    verdict: Verdict | None
    """Where the episode has ended."""
    lost: str | None
    """Why there is no result."""
    seconds: float


class World:
    """Slots of one environment.

    Args:
        name: In the mixture.
        make: Makes the environment of a slot.
        size: How many slots.
        remote: Whether turns wait for a network, so that they are played side by side.
    """

    def __init__(self, name: str, make: Callable[[], Player], size: int, *, remote: bool = False) -> None:
        self.name = name
        self._make = make
        self._players: list[Player | None] = [None] * size
        self._threads = ThreadPoolExecutor(min(size, 32), f"world-{name}") if remote else None
        self.spec = self._player(0).spec

    @property
    def size(self) -> int:
        """How many slots there are."""
        return len(self._players)

    @property
    def provides(self) -> frozenset[str]:
        """Fields of turns that its traces fill (:data:`agentenvs.train.plugins.FIELDS`)."""
        return frozenset(("turn.state_key", "turn.facts", "turn.potential"))

    def begin(self, slot: int, ref: TaskRef) -> Observation | str:
        """Begin an episode; return what is seen, or why there is none."""
        try:
            return self._player(slot).reset(ref)
        except UserError:
            raise
        except Exception as error:  # noqa: BLE001 - boundary: an environment may fail in any way
            return self._lose(slot, error)

    def step(self, actions: Mapping[int, Any]) -> dict[int, Answer]:
        """Play a turn in some slots."""
        if self._threads is None:
            return {slot: self._step(slot, action) for slot, action in actions.items()}
        waiting = {slot: self._threads.submit(self._step, slot, action) for slot, action in actions.items()}
        return {slot: found.result() for slot, found in waiting.items()}

    def finish(self, slot: int, ending: Ending = "truncated") -> Verdict | str:
        """End an episode; return its verdict, or why there is none."""
        try:
            return self._player(slot).finish(ending)
        except Exception as error:  # noqa: BLE001 - boundary: an environment may fail in any way
            return self._lose(slot, error)

    def legal(self, slot: int, observation: Observation) -> tuple[str, ...] | None:
        """Return the legal actions, where they are known without being shown to the policy."""
        if observation.admissible is not None:
            return observation.admissible
        asked: Any = getattr(self._player(slot), "admissible", None)
        return asked() if callable(asked) else None

    def standing(self, slot: int) -> tuple[str | None, float | None]:
        """Return state key and potential of an episode that has just begun, where they can be told."""
        player = self._players[slot]
        if isinstance(player, Environment):
            return player.state_key, player.potential
        return None, None

    def put(self, slot: int, player: Player) -> None:
        """Put an environment into a slot, in the midst of an episode or not; the one before it is given up."""
        before, self._players[slot] = self._players[slot], player
        if before is not None:
            before.close()

    def local(self, slot: int) -> Environment:
        """Return the environment of a slot in this process.

        Raises:
            ConfigError: It is on a server.
        """
        player = self._player(slot)
        if not isinstance(player, Environment):
            raise ConfigError(f"{self.name} is on a server", fix="leave out its url for this")
        return player

    def close(self) -> None:
        """Give up all slots. May be called twice."""
        for player in self._players:
            if player is not None:
                player.close()
        self._players = [None] * len(self._players)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _player(self, slot: int) -> Player:
        found = self._players[slot]
        if found is None:
            found = self._players[slot] = self._make()
        return found

    def _step(self, slot: int, action: Any) -> Answer:
        start = time.perf_counter()
        try:
            player = self._player(slot)
            result = player.step(action)
            trace = player.last_trace
            verdict = player.verdict if result.terminated or result.truncated else None
        except Exception as error:  # noqa: BLE001 - boundary: an environment may fail in any way
            return Answer(None, None, None, self._lose(slot, error), time.perf_counter() - start)
        return Answer(result, trace, verdict, None, time.perf_counter() - start)

    def _lose(self, slot: int, error: Exception) -> str:
        """Give up a slot whose environment failed, so that the next episode there begins in a new one."""
        player, self._players[slot] = self._players[slot], None
        if player is not None:
            with suppress(Exception):  # it has failed already
                player.close()
        return error.what if isinstance(error, AgentEnvsError) else f"{type(error).__name__}: {error}"


def open_world(name: str, config: WorldConfig, size: int) -> World:
    """Make the slots of an environment.

    Raises:
        UserError: There is no such environment, server or option.
    """
    import agentenvs

    options = dict(config.options)
    if config.url is None:
        return World(name, lambda: agentenvs.make(config.env, **options), size)
    url = config.url
    return World(name, lambda: agentenvs.make(config.env, url=url, trace=True, **options), size, remote=True)


def shared(worlds: Sequence[World]) -> frozenset[str]:
    """Return the fields that all environments of a mixture provide."""
    return frozenset.intersection(*(world.provides for world in worlds)) if worlds else frozenset()
