"""Plays the episodes of a run K at a time.

Each worker is a thread with an environment and a policy of its own; both are kept from episode to episode, and
replaced after an episode that was aborted or cut. The thread that runs the crew only watches: it keeps the wall limit,
and on a keyboard interrupt ends every running episode as abandoned, those of workers that do not answer too.

A stream has one worker whose policy lives through all episodes in the declared order; each ended episode is handed to
a policy that learns.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from agentenvs.core.errors import AgentEnvsError, PolicyError
from agentenvs.core.playable import Playable
from agentenvs.core.policy import Learner, Policy
from agentenvs.core.task import TaskRef
from agentenvs.core.verdict import Ending
from agentenvs.harness.execution import ProgramRollout
from agentenvs.harness.policies import PolicyFactory
from agentenvs.harness.program import Program
from agentenvs.harness.rollout import Episode, Rollout

WIND_DOWN_SECONDS = 5.0
"""How long an interrupt waits for policies at work before their episodes are ended for them."""

_WATCH_SECONDS = 0.1


class Crew:
    """The workers of a run.

    Args:
        make_env: Makes an environment.
        make_policy: Makes a policy.
        tasks: The episodes, numbered, in order.
        keep: Takes each ended episode; called under a lock.
        begin: Is told the number of each episode before it is played; called under the same lock.
        may_start: Asked before each episode; False ends the run with those that are being played. Under the lock too.
        shown: What a policy that learns may see of an episode: record and reward; None outside a stream.
        seconds: Wall limit of an episode; None for none.
    """

    def __init__(
        self,
        make_env: Callable[[], Playable],
        make_policy: PolicyFactory,
        tasks: Sequence[tuple[int, TaskRef]],
        keep: Callable[[Episode], None],
        *,
        begin: Callable[[int], None] = lambda number: None,
        may_start: Callable[[], bool] = lambda: True,
        shown: Callable[[Episode], tuple[bytes, float | None]] | None = None,
        seconds: float | None = None,
    ) -> None:
        self.make_env = make_env
        self.make_policy = make_policy
        self.shown = shown
        self.interrupted = False
        self.failure: BaseException | None = None
        self.stop = threading.Event()
        self._keep = keep
        self._begin = begin
        self._may_start = may_start
        self._seconds = seconds
        self._lock = threading.Lock()
        self._todo = deque(tasks)
        self._workers: list[_Worker] = []

    def run(self, policies: list[Policy]) -> None:
        """Play everything with one worker a policy; return when all ended, something failed, or on an interrupt."""
        self._workers = [_Worker(self, policy) for policy in policies]
        try:
            for worker in self._workers:
                worker.start()
            while busy := [worker for worker in self._workers if worker.at_work()]:
                busy[0].over.wait(_WATCH_SECONDS)
                self._hold_limit()
        except KeyboardInterrupt:
            self.interrupted = True
            self.stop.set()
            self._wind_down()

    def next(self) -> tuple[int, TaskRef] | None:
        """Return the next episode's number and address, or None where there is no more to do."""
        with self._lock:
            if self.stop.is_set() or not self._todo or not self._may_start():
                return None
            task = self._todo.popleft()
            self._begin(task[0])
            return task

    def done(self, episode: Episode) -> None:
        """Take an ended episode."""
        with self._lock:
            self._keep(episode)

    def fail(self, error: BaseException) -> None:
        """Take what ends the run: no episode's failure, but the run's."""
        self.failure = self.failure or error
        self.stop.set()

    def _hold_limit(self) -> None:
        if self._seconds is None:
            return
        late = time.monotonic() - self._seconds
        for worker in list(self._workers):
            rollout = worker.rollout
            if rollout is None or rollout.started > late or worker.lost:
                continue
            if worker.cut("truncated", f"the wall limit of {self._seconds:g} s") is not None:
                self._replace(worker)

    def _replace(self, lost: _Worker) -> None:
        if self.shown is not None:
            self.fail(PolicyError("the policy of the stream overran the wall limit", why="the stream needs its memory"))
            return
        try:
            fresh = _Worker(self, self.make_policy())
        except Exception as error:  # noqa: BLE001 - boundary: whatever a factory raises ends the run
            self.fail(error)
            return
        self._workers.append(fresh)
        fresh.start()

    def _wind_down(self) -> None:
        end = time.monotonic() + WIND_DOWN_SECONDS
        busy = [worker for worker in self._workers if worker.at_work()]
        try:
            for worker in busy:
                worker.over.wait(max(end - time.monotonic(), 0.0))
        except KeyboardInterrupt:  # asked twice: do not wait
            pass
        for worker in busy:
            if worker.at_work() and worker.cut("abandoned", "interrupted") is None:
                worker.over.wait(1.0)  # it came to its end by itself at this moment, and is about to hand it over


class _Worker(threading.Thread):
    def __init__(self, crew: Crew, policy: Policy) -> None:
        super().__init__(name="agentenvs-worker", daemon=True)
        self.rollout: Rollout | None = None
        # Not is_alive() and join(): in some releases an interrupted join takes a running thread for a stopped one.
        self.over = threading.Event()
        self.lost = False
        """Its episode was cut; when it comes back it has nothing more to do."""
        self._crew = crew
        self._policy = policy
        self._env: Playable | None = None

    def at_work(self) -> bool:
        return self.ident is not None and not self.over.is_set() and not self.lost

    def cut(self, ending: Ending, why: str) -> Episode | None:
        """End the episode that is played, from the watching thread; None where there was none to end."""
        rollout = self.rollout
        episode = None if rollout is None else rollout.cut(ending, why)
        if episode is not None:
            self.lost = True
            self._crew.done(episode)
        return episode

    def run(self) -> None:
        try:
            while not self.lost and (task := self._crew.next()) is not None:
                self._one(*task)
        except BaseException as error:  # noqa: BLE001 - boundary of a thread: the caller's thread raises it
            self._crew.fail(error)
        finally:
            self._drop_env()
            close = getattr(self._policy, "close", None)
            if callable(close):
                _quietly(close)
            self.over.set()

    def _one(self, number: int, ref: TaskRef) -> None:
        if self._env is None:
            self._env = self._crew.make_env()
        learner = self._policy if isinstance(self._policy, Learner) else None
        library = None if learner is None else _library(learner)
        kind = ProgramRollout if isinstance(self._policy, Program) else Rollout
        rollout = kind(self._env, self._policy, ref, number=number, library=library)
        self.rollout = rollout
        episode = rollout.run(self._crew.stop.is_set)
        self.rollout = None
        if episode is None:  # it was cut, and another worker has taken this one's place
            self.lost = True
            return
        self._crew.done(episode)
        if episode.summary.ending == "aborted":
            self._drop_env()
        if self._crew.shown is not None:
            _hand_over(self._policy, *self._crew.shown(episode))

    def _drop_env(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            _quietly(env.close)


def _library(learner: Learner) -> str:
    try:
        found: object = learner.library_digest()
    except (Exception, SystemExit) as error:
        raise _unable("library_digest", error) from error
    if not isinstance(found, str):
        raise PolicyError(f"library_digest() returned a {type(found).__name__}", fix="return a SHA-256 in hexadecimal")
    if not re.fullmatch("[0-9a-f]{64}", found):
        raise PolicyError("library_digest() returned no digest", fix="return a SHA-256 in hexadecimal")
    return found


def _hand_over(policy: Policy, record: bytes, reward: float | None) -> None:
    """Hand an ended episode of a stream to a policy that learns from it.

    Raises:
        PolicyError: It cannot take it: a stream whose policy has lost its memory is not worth going on.
    """
    feedback = getattr(policy, "feedback", None)
    try:
        if isinstance(policy, Learner):
            policy.episode_ended(record, reward)
        if callable(feedback):
            feedback(reward)
    except (Exception, SystemExit) as error:
        raise _unable("episode_ended or feedback", error) from error


def _unable(method: str, error: BaseException) -> AgentEnvsError:
    if isinstance(error, AgentEnvsError):
        return error
    return PolicyError(f"the policy's {method} raised {type(error).__name__}", why=str(error))


def _quietly(close: Callable[[], object]) -> None:
    """Close what is being given up; it may be broken, and its episodes are kept."""
    with suppress(Exception, SystemExit):
        close()
