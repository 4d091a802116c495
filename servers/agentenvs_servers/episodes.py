"""One episode as a server keeps it: the world with its record, the last answer, and nothing that grows without need.

The last turn's answer is kept as bytes, with the action it answers: the same turn asked again gets the same bytes, and
the world is not touched. Earlier turns are in the record.

An environment may fail in any way at any time; its episode then ends as ``aborted``, with a record. One that breaks the
contract (a verdict that is no JSON, a reward that is no number) has failed too.
"""

from __future__ import annotations

import json
import logging
import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from agentenvs.core.canon import JSON, canonical_bytes
from agentenvs.core.environment import Environment
from agentenvs.core.errors import ContractError, UserError
from agentenvs.core.record import Recorded, effects_to_json, lost_record
from agentenvs.core.task import Task, TaskRef
from agentenvs.core.turn import StepResult
from agentenvs.core.verdict import Ending, Verdict
from agentenvs_servers.dumping import Written, dump
from agentenvs_servers.failures import told
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.wire import PlayerBody

_ANSWER = b'{"episode":%b,"turn":%d,"observation":%b,"reward":%b,"terminated":%b,"truncated":%b,"info":%b}'
"""An answer to a turn; put together by hand, since every step needs one."""

log = logging.getLogger("agentenvs.server")


class Episode:
    """A running or ended episode that is still in its session's world.

    Args:
        name: The episode id.
        agent_key: Who may play it.
        recorded: The world; reset already.
        task: What its player is told, as JSON.
        observation: What the reset showed, as JSON.
        player: What its client says of the player.
        traced: Whether to keep the trace of every turn.
        sealed: Whether its scenario is sealed: nothing is said of what is hidden in it, not after the end either.
    """

    __slots__ = (
        "_known",
        "_lost",
        "_spelled",
        "agent_key",
        "answer",
        "failure",
        "first",
        "last_trace",
        "name",
        "observation",
        "player",
        "recorded",
        "said",
        "sealed",
        "task",
        "traced",
        "traces",
        "turn",
        "verdict",
    )

    def __init__(
        self,
        name: str,
        agent_key: str,
        recorded: Recorded,
        task: dict[str, Any],
        observation: bytes,
        player: PlayerBody,
        *,
        traced: bool,
        sealed: bool,
    ) -> None:
        self.name = name
        self._spelled = dump(name)
        self.sealed = sealed
        self.agent_key = agent_key
        self.recorded = recorded
        self.turn = 0
        self.said: bytes | None = None
        """The action of the last turn, in its one spelling."""
        self.answer: bytes | None = None
        """The answer to the last turn."""
        self.failure: str | None = None
        """The exception of the environment, where it failed in the last turn; ``!`` before it where its record is
        lost too."""
        self.player = player
        self._lost: bytes | None = None
        """The record, where that of the world cannot be had."""
        self._known: tuple[str | None, Mapping[str, JSON]] | None = None
        self.last_trace: bytes | None = None
        self.traced = traced
        self.traces: list[bytes] = []
        self.verdict: Verdict | None = None
        self.observation = observation
        self.task = task
        self.first = dump(
            {
                "episode": name,
                "agent_key": agent_key,
                "task": self.task,
                "turn": 0,
                "observation": Written(self.observation),
            }
        )

    @classmethod
    def opened(cls, opening: bytes, recorded: Recorded, player: PlayerBody, *, traced: bool, sealed: bool) -> Episode:
        """Return an episode that was begun before, from the answer to its reset.

        Raises:
            ValueError: That is no such answer.
            KeyError: Something is missing in it.
        """
        form = json.loads(opening)
        observation = dump(form["observation"])
        made = cls(
            form["episode"],
            form["agent_key"],
            recorded,
            form["task"],
            observation,
            player,
            traced=traced,
            sealed=sealed,
        )
        made.first = opening
        return made

    def fork(self, name: str, agent_key: str) -> Episode:
        """Return a copy at this turn, in a world of its own; its last turn has the same answer, under its own name.

        Raises:
            CapabilityError: The environment cannot be forked.
        """
        twin = Episode(
            name,
            agent_key,
            self.recorded.fork(),
            self.task,
            self.observation,
            self.player,
            traced=self.traced,
            sealed=self.sealed,
        )
        answer = None if self.answer is None else b'{"episode":%b,%b' % (dump(name), self.answer.partition(b",")[2])
        twin.resume(self.turn, self.said, answer, list(self.traces))
        twin.first = dump({**json.loads(twin.first), "turn": self.turn})
        return twin

    def opened_with(self) -> JSON:
        """Return the first observation."""
        return json.loads(self.first)["observation"]

    def resume(self, turn: int, said: bytes | None, answer: bytes | None, traces: list[bytes]) -> None:
        """Go on at a turn that was played before."""
        self.turn, self.said, self.answer, self.traces = turn, said, answer, traces
        self.observation = dump(self.env.observation.to_json())
        self.verdict = self.env.verdict

    @property
    def env(self) -> Environment:
        """The world."""
        return self.recorded.env

    @property
    def ref(self) -> TaskRef:
        """The address of its scenario."""
        ref = self.task["ref"]
        return TaskRef(ref["split"], ref["index"])

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._lost is not None or self.recorded.ended

    def check(self, turn: int, said: bytes) -> bytes | None:
        """Return the answer that a turn has had already, or None where it is the next one.

        Raises:
            ProblemError: ``turn_past``, ``turn_conflict``, ``turn_ahead``, ``episode_ended``; or what the turn was
                answered before.
        """
        if turn == self.turn:
            if said != self.said:
                raise ProblemError("turn_conflict", f"turn {turn} was played with another action")
            if self.failure is not None:
                raise self.failed()
            return self.answer
        if turn < self.turn:
            raise ProblemError("turn_past", f"turn {turn} was played; the last one is {self.turn}")
        if self.ended:
            raise ProblemError("episode_ended", f"it ended after turn {self.turn}")
        if turn > self.turn + 1:
            raise ProblemError("turn_ahead", f"the next turn is {self.turn + 1}, not {turn}")
        return None

    def played(self, turn: int, said: bytes, result: StepResult) -> bytes:
        """Take the result of a turn and return its answer.

        Raises:
            ContractError: It is none that can be recorded and sent; or what else making JSON of it may raise.
        """
        self._check(result)
        observation = dump(result.observation.to_json())
        answer = self._written(turn, observation, result)
        self.last_trace = None
        if self.traced:
            self.traces.append(self.trace())
        self.turn, self.said, self.answer, self.observation = turn, said, answer, observation
        self.verdict = self.env.verdict
        return answer

    def _written(self, turn: int, observation: bytes, result: StepResult) -> bytes:
        """Return the answer to a turn."""
        return _ANSWER % (
            self._spelled,
            turn,
            observation,
            dump(self._told(result)),
            b"true" if result.terminated else b"false",
            b"true" if result.truncated else b"false",
            dump(result.info),
        )

    def _told(self, result: StepResult) -> float:
        """Return the reward that the player is told: of a sealed scenario, none before the end."""
        if not self.sealed:
            return result.reward
        return 0.0 if self.env.verdict is None else self.env.verdict.reward

    def told_verdict(self) -> dict[str, JSON] | None:
        """Return the verdict as far as it may be told."""
        if self.verdict is None:
            return None
        return (Verdict(self.verdict.reward, self.verdict.success) if self.sealed else self.verdict).to_json()

    def _check(self, result: StepResult) -> None:
        if not math.isfinite(result.reward):
            raise ContractError(f"the reward {result.reward!r} is no number")
        if self.env.effects:  # all else of a line is JSON already
            canonical_bytes(effects_to_json(self.env.effects))
        if self.env.verdict is not None:
            canonical_bytes(self.env.verdict.to_json())

    def fail(self, turn: int, said: bytes, error: Exception) -> ProblemError:
        """Take the failure of the environment in a turn, and return what every asker of this turn is answered."""
        cause = error.__cause__ or error if isinstance(error, ProblemError) else error
        log.error("the environment failed in turn %d of %s: %s", turn, self.name, told(cause))
        self.turn, self.said, self.last_trace = turn, said, None
        why = type(cause).__name__
        self._abort(why)
        self.failure = why if self._lost is None else f"!{why}"
        return self.failed()

    def fail_again(self, turn: int, said: bytes, failure: str) -> None:
        """Take a failure that is known from before."""
        self.turn, self.said, self.last_trace, self.failure = turn, said, None, failure
        if failure.startswith("!"):
            self._lose(failure[1:])
        else:
            self._abort(failure)

    def failed(self) -> ProblemError:
        """Return the answer to the last turn, in which the environment failed."""
        return ProblemError("environment_failed", f"{(self.failure or '').lstrip('!')} in turn {self.turn}")

    def finish(self, ending: Ending) -> None:
        """End the episode, where it has not ended."""
        if self.ended:
            return
        try:
            self.verdict = self.recorded.finish(ending)
            canonical_bytes(self.verdict.to_json())
        except Exception as error:  # noqa: BLE001 - boundary: an environment may fail in any way
            log.error("the environment failed when %s was ended: %s", self.name, told(error))
            self._abort(type(error).__name__)

    def _abort(self, why: str) -> None:
        """End the episode of a failed environment; where its record has an end already, that end was a failure."""
        if self.recorded.ended:
            self._lose(why)
            return
        try:
            self.verdict = self.recorded.abort(why, self.ref)
            self.recorded.to_bytes()
        except Exception as worse:  # noqa: BLE001 - boundary: an environment may fail in any way
            self._lose(type(worse).__name__)

    def _lose(self, why: str) -> None:
        """Put the record of a lost episode in the place of one that cannot be had."""
        player, env = self.player, self.env
        self.verdict = Verdict(0.0, False, reasons=(f"the environment failed: {why}",))
        self._lost = lost_record(
            env.spec, self.task["options"], self.ref, why, privileged=player.privileged, library=player.library
        )

    def trace(self) -> bytes:
        """Return the last turn seen from inside.

        Raises:
            ProblemError: ``environment_failed``.
        """
        if self.last_trace is None:
            try:
                trace = self.env.last_trace
                self.last_trace = None if trace is None else dump(trace.to_json())
            except Exception as error:
                log.error("the environment failed when %s was traced: %s", self.name, told(error))
                raise ProblemError("environment_failed", f"{type(error).__name__} in the trace of this turn") from error
        if self.last_trace is None:
            raise ProblemError("environment_failed", "the environment kept no trace of this turn")
        return self.last_trace

    def known(self) -> tuple[str | None, Mapping[str, JSON]]:
        """Return scenario name and labels of an ended episode; asked once, before the world goes on to another."""
        if self.sealed:
            return None, {}
        if self._known is None:
            try:
                labels = dict(self.env.labels())
                canonical_bytes(labels)
                self._known = str(self.env.scenario_name()), labels
            except Exception:  # noqa: BLE001 - boundary: an environment that failed may not know itself any more
                self._known = None, {}
        return self._known

    def ending(self) -> Ending | None:
        """Return how it ended; None while it runs."""
        return "aborted" if self._lost is not None else self.recorded.ending

    def record(self) -> bytes:
        """Return the record of an ended episode."""
        return self.recorded.to_bytes() if self._lost is None else self._lost

    def pack(self) -> bytes:
        """Return the record, to be kept when the world goes on to another episode."""
        return zlib.compress(self.record(), 1)


def begin(
    env: Environment,
    ref: TaskRef,
    player: PlayerBody,
    names: Callable[[], tuple[str, str]],
    *,
    traced: bool,
    sealed: bool = False,
) -> Episode:
    """Begin an episode.

    Args:
        env: The world.
        ref: Which scenario.
        player: What its client says of the player.
        names: Makes the episode id and the agent key.
        traced: Whether to keep traces.
        sealed: Whether the scenario is sealed.

    Raises:
        ProblemError: ``task_unknown``, or ``environment_failed``.
    """
    recorded = Recorded(env, privileged=player.privileged, library=player.library)
    try:
        observation = recorded.reset(ref)
        canonical_bytes(effects_to_json(env.effects))
        name, agent_key = names()
        task = task_to_json(env.task())
        return Episode(
            name, agent_key, recorded, task, dump(observation.to_json()), player, traced=traced, sealed=sealed
        )
    except UserError as error:  # its words may name folders of the operator's
        raise ProblemError("task_unknown", f"the scenario {ref.split}/{ref.index} cannot be used here") from error
    except Exception as error:
        log.error("the environment failed at the beginning of %s/%d: %s", ref.split, ref.index, told(error))
        raise ProblemError("environment_failed", f"{type(error).__name__} at the beginning of the episode") from error


def task_to_json(task: Task) -> dict[str, Any]:
    """Return the JSON form of a task."""
    return {
        "env": task.env,
        "ref": task.ref.to_json(),
        "options": dict(task.options),
        "instruction": task.instruction,
    }
