"""The environments a server hosts: what they say of themselves, and how they are made and called.

An environment that is bounded by construction (``inline``) is called on the event loop, which is twice as fast as any
other way; one that may block is called in a thread, and one that may hang lives in a worker process besides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any, TypeVar

from agentenvs.core import registry, targets
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import DataError, OptionError, SplitError, UserError
from agentenvs.core.record import Recorded
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import Effect, StepResult
from agentenvs_scoring import cards
from agentenvs_servers.failures import told
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.wire import TaskBody

T = TypeVar("T")

log = logging.getLogger("agentenvs.server")


class EnvironmentLeft(Exception):
    """An environment raised what would end the server, or a thread of it, rather than the call."""


def contained(do: Callable[..., T], *arguments: Any) -> T:
    """Return what a call into an environment returns; what it raises ends the call, and nothing else."""
    try:
        return do(*arguments)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, StopIteration):  # no future can hold one
            raise EnvironmentLeft from error
        raise
    except BaseException as error:
        raise EnvironmentLeft from error


class Caller:
    """Calls environments, on the loop or off it."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    async def call(self, of: Environment | World, do: Callable[..., T], *arguments: Any) -> T:
        """Return what a call into an environment, or of one that is yet to be made, returns."""
        if of.spec.capabilities.execution == "inline":
            return contained(do, *arguments)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "agentenvs-world")
        return await asyncio.get_running_loop().run_in_executor(self._pool, contained, do, *arguments)

    async def step(self, recorded: Recorded, action: Any, *, effects: Iterable[Effect] | None = None) -> StepResult:
        """Play a turn; one that was played before with the effects it had."""
        env = recorded.env
        if env.spec.capabilities.execution == "process" or not env._asynchronous:
            return await self.call(env, lambda: recorded.step(action, effects=effects))
        try:
            return await recorded.astep(action, effects=effects)
        except SystemExit as error:
            raise EnvironmentLeft from error

    def close(self) -> None:
        """Let the threads go; those that hang are not waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


class World:
    """One hosted environment.

    Args:
        name: Id or slug, file or class; see :mod:`agentenvs.core.targets`.
        options: What the operator sets: defaults that clients may change, and options of the machine.

    Raises:
        UserError: Some subclass: no such environment, or an option it does not take.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.spec: EnvSpec = targets.spec_of(name)
        known = {option.name for option in self.spec.options}
        self.turns = 0
        """Turns that were played in it, by sessions of this process."""
        self._options = {option: value for option, value in options.items() if option in known}
        self._machine = {option.name for option in self.spec.options if option.secret}
        env = registry.make_from(self.spec, **self._options)
        try:
            self.inline = self.spec.capabilities.execution == "inline" and not env._asynchronous
            """Whether it is bounded by construction, and called on the event loop."""
            self.splits: dict[str, SplitSpec] = env.splits()
            self.public_options = env.public_options()
            self.budgets = env.declared_budgets()
            env.warm()
        finally:
            env.close()

    def make(self, options: Mapping[str, Any]) -> Environment:
        """Make an environment for a session.

        Raises:
            ProblemError: ``option_refused`` or ``environment_failed``.
        """
        if foreign := sorted(self._machine.intersection(options)):
            raise ProblemError("option_refused", f"the option {foreign[0]!r} belongs to the server's operator")
        try:
            return registry.make_from(self.spec, **{**self._options, **options})
        except OptionError as error:
            raise ProblemError("option_refused", error.what, fix=error.fix) from error
        except Exception as error:
            log.error("%s cannot be made: %s", self.spec.id, told(error))
            raise ProblemError("environment_failed", f"{type(error).__name__} in its making") from error

    def ref(self, body: TaskBody | None) -> TaskRef:
        """Return the address a request names.

        Raises:
            ProblemError: ``task_unknown``, or ``sealed_rule`` for a sealed split.
        """
        body = body or TaskBody()
        name = self.spec.default_split if body.split is None else body.split
        split = self.splits.get(name)
        if split is None:
            raise ProblemError("task_unknown", f"{self.spec.slug} has no split {name[:80]!r}: {', '.join(self.splits)}")
        if split.sealed:
            raise ProblemError("sealed_rule", "a sealed scenario is given out by a create, one at a time")
        if body.seed is not None and split.size is not None:
            raise ProblemError("task_unknown", f"the split {name!r} is finite", fix="name an index, not a seed")
        number = body.seed if body.seed is not None else body.index
        return TaskRef(name, number or 0)

    def sealed(self, body: TaskBody | None) -> SplitSpec | None:
        """Return the sealed split that a request names; None where it names no such split."""
        split = None if body is None or body.split is None else self.splits.get(body.split)
        return split if split is not None and split.sealed else None

    def following(self, ref: TaskRef) -> TaskRef:
        """Return the next address of a split.

        Raises:
            ProblemError: ``split_exhausted``.
        """
        size = self.splits[ref.split].size
        if size is not None and ref.index + 1 >= size:
            raise ProblemError("split_exhausted", f"{ref.split} holds {size} scenarios")
        return TaskRef(ref.split, ref.index + 1)

    def line(self) -> dict[str, JSON]:
        """Return the line of the list of environments."""
        spec = self.spec
        names = ("id", "slug", "release", "title", "description", "digest")
        return {name: getattr(spec, name) for name in names}

    def describe(self) -> dict[str, JSON]:
        """Return all that a client may know before it plays.

        Which classes implement the environment and its players is left out: a client must not import what a server
        names.
        """
        spec = self.spec
        shown = replace(spec, entry_point="", players={})
        return {
            "id": spec.id,
            "slug": spec.slug,
            "release": spec.release,
            "digest": spec.digest,
            "spec": shown.to_json(),
            "splits": [split_to_json(split) for split in self.splits.values()],
            "options": self.public_options,
            "budgets": self.budgets,
            "card": _card(spec.slug),
        }


def _card(slug: str) -> dict[str, JSON] | None:
    try:
        return asdict(cards.load(slug))
    except DataError:  # an environment of somebody else's has none
        return None


def split_to_json(split: SplitSpec) -> dict[str, JSON]:
    """Return the JSON form of a split."""
    names = ("name", "size", "description", "sealed", "panel")
    return {name: getattr(split, name) for name in names}


def look_up(env: Environment, ref: TaskRef) -> None:
    """Make sure that there is a scenario before anything is given up for it.

    Raises:
        ProblemError: ``task_unknown``.
    """
    try:
        env.check_ref(ref)
        env.scenario(ref.split, ref.index)
    except SplitError as error:
        raise ProblemError("task_unknown", error.what + (f": {error.why}" if error.why else "")) from error
    except UserError as error:  # its words may name folders of the operator's
        raise ProblemError("task_unknown", f"the scenario {ref.split}/{ref.index} cannot be used here") from error


def host(names: Sequence[str], options: Mapping[str, Any]) -> dict[str, World]:
    """Return the worlds of a server by id.

    Raises:
        UserError: Some subclass: no such environment, or an option that none of them takes.
    """
    worlds = {world.spec.id: world for world in (World(name, options) for name in dict.fromkeys(names))}
    known = {option.name for world in worlds.values() for option in world.spec.options}
    if unknown := sorted(set(options) - known):
        raise OptionError(f"no environment here has an option {unknown[0]!r}", fix=f"known: {', '.join(sorted(known))}")
    return worlds
