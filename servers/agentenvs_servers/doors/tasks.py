"""The list of tasks as OpenEnv and the Open Reward Standard ask for it: splits, and addresses of scenarios in them.

A task is its address, ``{"split": …, "index": …}``. An endless split is shown by its first thousand; any other number
of it can be asked for and played as well. Sealed splits are not shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from agentenvs.core.spec import SplitSpec
from agentenvs_servers import bodies
from agentenvs_servers.doors.keys import tenant_of
from agentenvs_servers.doors.routing import Call, Route, world_of
from agentenvs_servers.dumping import dump
from agentenvs_servers.hall import Hall
from agentenvs_servers.handlers import Answer
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.wire import Wire
from agentenvs_servers.worlds import World

SHOWN = 1_000
"""Tasks that are shown of an endless split."""


class SplitAsk(Wire):
    """``POST …/tasks`` and ``…/num_tasks``."""

    split: str = Field(max_length=200)


class TaskAsk(SplitAsk):
    """``POST …/task``."""

    index: int


class RangeAsk(SplitAsk):
    """``POST …/task_range``."""

    start: int | None = None
    stop: int | None = None


class Tasks:
    """The routes of the list of tasks.

    Args:
        hall: The sessions.
    """

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    @property
    def routes(self) -> Sequence[Route]:
        """The routes."""
        return (
            Route("GET", "/list_environments", self.environments, "Names of the environments.", prefixed=False),
            Route("GET", "/splits", self.splits, "Splits: name, and whether to train, validate or test on."),
            Route("POST", "/tasks", self.tasks, "The tasks of a split; of an endless one the first thousand."),
            Route("POST", "/num_tasks", self.number, "How many tasks of a split are listed."),
            Route("POST", "/task", self.task, "One task."),
            Route("POST", "/task_range", self.range, "Tasks from one number up to another, as Python slices."),
        )

    async def environments(self, call: Call) -> Answer:
        """List the environments."""
        tenant_of(call, self._hall.keyring)
        return Answer(200, dump([world.spec.slug for world in self._hall.worlds.values()]))

    async def splits(self, call: Call) -> Answer:
        """List the splits."""
        world = self._world(call)
        shown = [split for split in world.splits.values() if not split.sealed]
        return Answer(200, dump([{"name": split.name, "type": _type(split.name)} for split in shown]))

    async def tasks(self, call: Call) -> Answer:
        """List the tasks of a split."""
        world, ask = self._world(call), bodies.parse(SplitAsk, await self._body(call))
        split = _split(world, ask.split)
        return _listed(world, [address(split.name, index) for index in range(_size(split))])

    async def number(self, call: Call) -> Answer:
        """Count the tasks of a split."""
        world, ask = self._world(call), bodies.parse(SplitAsk, await self._body(call))
        return Answer(200, dump({"num_tasks": _size(_split(world, ask.split))}))

    async def task(self, call: Call) -> Answer:
        """Return one task."""
        world, ask = self._world(call), bodies.parse(TaskAsk, await self._body(call))
        split = _split(world, ask.split)
        index = ask.index + split.size if ask.index < 0 and split.size is not None else ask.index
        if index < 0 or (split.size is not None and index >= split.size):
            raise ProblemError("task_unknown", f"{split.name} has no task {ask.index}")
        return Answer(200, dump({"task": address(split.name, index), "env_name": world.spec.slug}))

    async def range(self, call: Call) -> Answer:
        """Return some tasks."""
        world, ask = self._world(call), bodies.parse(RangeAsk, await self._body(call))
        split = _split(world, ask.split)
        first, last, _ = slice(ask.start, ask.stop).indices(_most(split, ask.stop))
        if last - first > SHOWN * 10:
            raise ProblemError("invalid_request", f"{last - first} tasks at once; the limit is {SHOWN * 10}")
        return _listed(world, [address(split.name, index) for index in range(first, last)])

    def _world(self, call: Call) -> World:
        tenant_of(call, self._hall.keyring)
        return world_of(call, self._hall.worlds)

    async def _body(self, call: Call) -> bytes:
        return await bodies.read(call.receive, call.headers, self._hall.settings)


def address(split: str, index: int) -> dict[str, Any]:
    """Return a task."""
    return {"split": split, "index": index}


def _listed(world: World, tasks: Sequence[Mapping[str, Any]]) -> Answer:
    return Answer(200, dump({"tasks": tasks, "env_name": world.spec.slug}))


def _split(world: World, name: str) -> SplitSpec:
    split = world.splits.get(name)
    if split is None or split.sealed:
        shown = ", ".join(split.name for split in world.splits.values() if not split.sealed)
        raise ProblemError("task_unknown", f"{world.spec.slug} has no split {name[:80]!r}: {shown}")
    return split


def _size(split: SplitSpec) -> int:
    return SHOWN if split.size is None else split.size


def _most(split: SplitSpec, stop: int | None) -> int:
    """Return where a range must end: of an endless split, where it says."""
    if split.size is not None:
        return split.size
    return max(SHOWN, stop or 0)


def _type(name: str) -> str:
    return next((kind for kind in ("train", "test") if name.startswith(kind)), "validation")
