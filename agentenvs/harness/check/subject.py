"""What is checked: how to make instances of it, which tasks to try, and what can be seen of it.

:class:`Subject` is the part that an environment in this process and one behind a wire have in common; each of them is a
subclass. Plays are made once and shared by all checks: the actions of the oracle and of players that wander about, with
what came of each turn.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, SplitError
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import TaskRef
from agentenvs.harness.check.episodes import Episode
from agentenvs.harness.check.findings import Sight

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried; every number is a count."""

    tasks: int
    """Tasks of the main split; other splits get one each."""
    walks: int
    """Wandering players a task."""
    turns: int
    """Turns of a wandering player."""
    points: int
    """Turns of a play at which it is forked, saved and restored."""
    branched: int
    """Plays with which that is done, and that are played in other processes."""
    endings: int
    """Plays that are finished at several turns, in every way."""
    junk: int
    """Examples of junk that Hypothesis tries."""
    twins: int
    """Tasks whose secrets are altered."""
    strolls: int
    """Wandering players for each pair of scenarios that differ in a secret."""


QUICK = Effort(tasks=2, walks=1, turns=16, points=2, branched=100, endings=2, junk=200, twins=1, strolls=4)
FULL = Effort(tasks=5, walks=3, turns=40, points=6, branched=100, endings=8, junk=1000, twins=4, strolls=4)


def slowed(effort: Effort) -> Effort:
    """Return less of everything, for what is played through another process."""
    turns, junk = min(effort.turns, 12), min(effort.junk, 60)
    few = replace(effort, tasks=max(effort.tasks // 2, 1), walks=1, points=1, branched=2, endings=1, twins=1, strolls=1)
    return replace(few, turns=turns, junk=junk)


class Subject(ABC):
    """An environment under check.

    Args:
        name: What the caller called it.
        spec: What it says of itself.
        options: Options it is made with.
        effort: How much is tried.
        split: The one split to look at; all of them where None.
    """

    sights: frozenset[Sight] = frozenset()
    """What can be seen of it."""
    unseen: Mapping[Sight, str] = {}
    """Why something cannot be seen, where that needs saying."""
    patience = 3
    """Undone turns after which no more is played: each costs its time, and they say enough."""
    feeds = True
    """Whether effects can be fed back, so that plays with effects can be compared."""

    def __init__(
        self, name: str, spec: EnvSpec, options: Mapping[str, Any], effort: Effort, split: str | None = None
    ) -> None:
        self.name = name
        self.spec = spec
        self.options = dict(options)
        self.effort = effort
        self.split = split
        self._made: list[Any] = []
        self._kept: list[Any] = []
        self._known: dict[Hashable, Any] = {}

    @abstractmethod
    def _make(self, options: Mapping[str, Any]) -> Any:
        """Make an instance."""

    @abstractmethod
    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits by name."""

    @abstractmethod
    def record(self, ref: TaskRef, actions: Sequence[JSON]) -> bytes:
        """Return the record of an episode in which these actions are played; abandoned where they do not end it."""

    @abstractmethod
    def verifier(self) -> Environment:
        """Return an instance in this process that replays and rescores records.

        Raises:
            Skip: There is none.
        """

    def complete(self, episode: Episode) -> None:  # noqa: B027 - nothing, where all is seen at once
        """Find out what a play could not see while it was played; the episode may be ended for it."""

    def make(self, **more: Any) -> Any:
        """Make an instance, with more options; it is closed when the check is over."""
        return self.adopt(self._make({**self.options, **more}))

    def adopt(self, env: T) -> T:
        """Close an instance when the check is over that made it."""
        self._made.append(env)
        return env

    def episode(self, ref: TaskRef, *, traced: bool = True, **more: Any) -> Episode:
        """Return an episode of a fresh instance that is not begun yet."""
        return self.watch(self.make(**more), ref, traced=traced)

    def watch(self, env: Any, ref: TaskRef, *, traced: bool = True) -> Episode:
        """Return an episode of an instance."""
        return Episode(env, ref, traced=traced)

    def keep(self, env: T) -> T:
        """Keep an instance beyond the check that made it, until the end."""
        self._made = [made for made in self._made if made is not env]
        self._kept.append(env)
        return env

    def end(self) -> None:
        """Close everything."""
        self.tidy()
        self._made, self._kept = self._kept, []
        self.tidy()

    def tidy(self) -> None:
        """Close all that was made since the last time."""
        made, self._made = self._made, []
        for env in made:
            # What close() does wrong is said by the check on close().
            with contextlib.suppress(Exception):
                env.close()

    def has(self, option: str) -> bool:
        """Whether the environment has an option."""
        return any(known.name == option for known in self.spec.options)

    def listing(self) -> dict[str, Any]:
        """Return the option that lists legal actions, where there is one."""
        return {"admissible": True} if self.has("admissible") else {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a value that several checks share; made by the first that asks."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]  # type: ignore[no-any-return]

    def stream(self, name: str) -> Stream:
        """Return a stream of random bits for a purpose, the same in each run of the check."""
        return Stream(scenario_key(self.spec.slug, "check", 0), name)

    @property
    def main_split(self) -> str:
        """The split most tasks are taken from.

        Raises:
            SplitError: The one that was asked for is not there.
        """
        if self.split is not None and self.split not in self.splits():
            raise SplitError(
                f"{self.spec.id} has no split {self.split!r}", fix=f"its splits: {', '.join(self.splits())}"
            )
        return self.split or self.spec.default_split

    @property
    def refs(self) -> list[TaskRef]:
        """The tasks that are tried, the first of the main split first."""
        return self.once("refs", self._refs)

    @property
    def ref(self) -> TaskRef:
        """The first task."""
        return self.refs[0]

    def _refs(self) -> list[TaskRef]:
        main = self.main_split
        found = self._of(self.splits()[main], self.effort.tasks)
        if self.split is None:
            for split in self.splits().values():
                if split.name != main and not split.sealed:
                    found += self._of(split, 1)
        return found

    def _of(self, split: SplitSpec, count: int) -> list[TaskRef]:
        """Return the first task of a split, the last where there is one, and some drawn between."""
        size = split.size
        if size is not None and size <= count:
            return [TaskRef(split.name, index) for index in range(size)]
        stream = self.stream(f"tasks/{split.name}")
        wanted = [0] if size is None else [0, size - 1]
        while len(wanted) < count:
            index = stream.below(10**9 if size is None else size)
            if index not in wanted:
                wanted.append(index)
        return [TaskRef(split.name, index) for index in wanted[:count]]

    def can_begin(self, ref: TaskRef) -> AgentEnvsError | None:
        """Return why a task cannot be begun here, where it cannot."""
        try:
            self.make().reset(ref)
        except AgentEnvsError as error:
            return error
        return None
