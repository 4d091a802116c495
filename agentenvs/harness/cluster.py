"""Plays the episodes of a run on a Ray cluster: the same rollouts in processes all over it, and the same records.

Each episode is a task of its own. This process hands them out, never more at a time than the run's concurrency, and
takes what comes back; so each is counted once, whatever is lost on the way. One whose worker or node goes away is begun
again elsewhere, as one that is cut off with a run's process is when the run goes on. What nodes need (this release of
agentenvs, modules of policies, files of data, the variable with a model's key) must be there before.
"""

from __future__ import annotations

import importlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from agentenvs._version import __version__
from agentenvs.core.errors import ConfigError, ServiceError, missing_extra
from agentenvs.core.policy import Policy
from agentenvs.core.task import TaskRef
from agentenvs.harness.planning import Plan, RunConfig, plan
from agentenvs.harness.program import is_program
from agentenvs.harness.rollout import Episode
from agentenvs.harness.workers import Crew

MOST_LOSSES = 5
"""How often an episode may be lost with its worker before the run is ended for it."""

_WATCH_SECONDS = 0.5


class RayCrew:
    """The face of :class:`~agentenvs.harness.workers.Crew`, with workers on a cluster.

    Args:
        config: The run.
        tasks: The episodes, numbered, in order.
        keep: Takes each ended episode.
        begin: Is told the number of each episode before it is played, and before it is played anew.
        may_start: Asked before each episode; False ends the run with those that are being played.

    Raises:
        MissingExtraError: Ray is not installed.
    """

    def __init__(
        self,
        config: RunConfig,
        tasks: Sequence[tuple[int, TaskRef]],
        keep: Callable[[Episode], None],
        *,
        begin: Callable[[int], None],
        may_start: Callable[[], bool],
    ) -> None:
        self.interrupted = False
        self.failure: BaseException | None = None
        self._ray = _ray()
        self._config = config
        self._todo = deque(tasks)
        self._keep, self._begin, self._may_start = keep, begin, may_start
        self._flying: dict[Any, tuple[int, TaskRef]] = {}
        self._losses: dict[int, int] = {}

    def run(self, policies: list[Policy]) -> None:
        """Play everything; return when all ended, something failed, or on an interrupt.

        Args:
            policies: Those that a run in this process would play with; they are closed.

        Raises:
            ServiceError: There is no such cluster.
        """
        for policy in policies:
            with suppress(Exception):
                close = getattr(policy, "close", None)
                _ = close() if callable(close) else None
        _join(self._ray, self._config.address)
        try:
            self._play()
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            for task in self._flying:
                with suppress(Exception):
                    self._ray.cancel(task, force=True)
            self._ray.shutdown()

    def _play(self) -> None:
        play = self._ray.remote(max_retries=0, num_cpus=1)(play_one)
        config = self._ray.put(self._config)
        while self.failure is None:
            while self._todo and len(self._flying) < self._config.concurrency and self._may_start():
                number, ref = self._todo.popleft()
                self._begin(number)
                self._flying[play.remote(config, __version__, number, ref)] = (number, ref)
            if not self._flying:
                return
            done, _ = self._ray.wait(list(self._flying), num_returns=1, timeout=_WATCH_SECONDS)
            for task in done:
                self._take(task, *self._flying.pop(task))

    def _take(self, task: Any, number: int, ref: TaskRef) -> None:
        """Take what came of a task: an episode, an error that ends the run, or nothing, as its worker is gone."""
        errors = self._ray.exceptions
        try:
            self._keep(self._ray.get(task))
        except errors.RayTaskError as error:
            self.failure = getattr(error, "cause", None) or error
        except errors.RayError as error:
            losses = self._losses[number] = self._losses.get(number, 0) + 1
            self._todo.appendleft((number, ref))
            if losses >= MOST_LOSSES:
                self.failure = ServiceError(
                    f"the cluster lost episode {number} {losses} times",
                    why=" ".join(str(error).split())[:300],
                    fix="look at its nodes, and go on with --resume",
                )


def check_cluster(config: RunConfig) -> None:
    """Refuse a run that cannot be played where it is to be.

    Raises:
        ConfigError: It cannot be played on a cluster, or there is an address of one and no word of it.
        MissingExtraError: Ray is not installed.
    """
    if config.backend == "local":
        if config.address is not None:
            raise ConfigError("an address has no effect here", fix="give --backend ray as well")
        return
    if config.order is not None:
        raise ConfigError("a stream is played by one policy, here", fix="leave out --backend ray")
    if config.transport is not None:
        raise ConfigError("a transport does not travel to a cluster", fix="give a url")
    if is_program(config.policy) and config.url is None:
        raise ConfigError("programs on a cluster need a server that all its nodes reach", fix="give --url URL")
    _ray()


def play_one(config: RunConfig, version: str, number: int, ref: TaskRef) -> Episode:
    """Play one episode, in a worker of the cluster.

    Raises:
        ConfigError: The node has another release.
        UserError: Some other subclass: what the node lacks.
    """
    if version != __version__:
        raise ConfigError(f"a node has agentenvs {__version__}, not {version}", fix="install the same release on all")
    planned = _planned(config)
    kept: list[Episode] = []
    crew = Crew(
        lambda: planned.stage.make(config.options),
        planned.factory,
        [(number, ref)],
        kept.append,
        seconds=None if is_program(config.policy) else config.episode_seconds,
    )
    crew.run([planned.factory()])
    if crew.failure is not None:
        raise crew.failure
    return kept[0]


_PLANS: list[tuple[RunConfig, Plan]] = []
"""The plan that this worker made last; making one builds the environment once."""


def _planned(config: RunConfig) -> Plan:
    if not _PLANS or _PLANS[0][0] != config:
        _PLANS[:] = [(config, plan(config))]
    return _PLANS[0][1]


def _ray() -> Any:
    # Nothing is told to anybody.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        importlib.import_module("ray.exceptions")
    except ImportError as error:
        raise missing_extra("a run on a cluster", "ray", "ray") from error
    return importlib.import_module("ray")


def _join(ray: Any, address: str | None) -> None:
    try:
        ray.init(address=address, log_to_driver=False, logging_level="warning", include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ServiceError(
            f"no Ray cluster can be joined at {address or 'this machine'}",
            why=" ".join(str(error).split())[:300],
            fix="give --address as `ray start --head` says it",
        ) from error
