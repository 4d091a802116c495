"""One episode as a server keeps it: the world with its record, the last answer, and nothing that grows without need.

The last turn's answer is kept as bytes, with the action it answers: the same turn asked again gets the same bytes, and
the world is not touched. Earlier turns are in the record.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import UserError
from agentenvs.core.observation import Observation
from agentenvs.core.record import Recorded
from agentenvs.core.task import Task, TaskRef
from agentenvs.core.turn import StepResult
from agentenvs.core.verdict import Ending, Verdict
from agentenvs_servers.dumping import dump
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.wire import PlayerBody

log = logging.getLogger("agentenvs.server")


class Episode:
    """A running or ended episode that is still in its session's world.

    Args:
        name: The episode id.
        agent_key: Who may play it.
        recorded: The world; reset already.
        observation: What the reset showed.
        traced: Whether to keep the trace of every turn.
    """

    __slots__ = (
        "agent_key",
        "answer",
        "failed",
        "first",
        "last_trace",
        "name",
        "observation",
        "recorded",
        "said",
        "task",
        "traced",
        "traces",
        "turn",
        "verdict",
    )

    def __init__(
        self, name: str, agent_key: str, recorded: Recorded, observation: Observation, *, traced: bool
    ) -> None:
        self.name = name
        self.agent_key = agent_key
        self.recorded = recorded
        self.turn = 0
        self.said: bytes | None = None
        """The action of the last turn, in its one spelling."""
        self.answer: bytes | None = None
        """The answer to the last turn."""
        self.failed: ProblemError | None = None
        """The answer to the last turn, where the environment failed in it."""
        self.last_trace: bytes | None = None
        self.traced = traced
        self.traces: list[bytes] = []
        self.verdict: Verdict | None = None
        self.observation = dump(observation.to_json())
        self.task = task_to_json(recorded.env.task())
        self.first = dump(
            {
                "episode": name,
                "agent_key": agent_key,
                "task": self.task,
                "turn": 0,
                "observation": orjson.Fragment(self.observation),
            }
        )

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
        return self.recorded.ended

    def check(self, turn: int, said: bytes) -> bytes | None:
        """Return the answer that a turn has had already, or None where it is the next one.

        Raises:
            ProblemError: ``turn_past``, ``turn_conflict``, ``turn_ahead``, ``episode_ended``; or what the turn was
                answered before.
        """
        if turn == self.turn:
            if said != self.said:
                raise ProblemError("turn_conflict", f"turn {turn} was played with another action")
            if self.failed is not None:
                raise self.failed
            return self.answer
        if turn < self.turn:
            raise ProblemError("turn_past", f"turn {turn} was played; the last one is {self.turn}")
        if self.ended:
            raise ProblemError("episode_ended", f"it ended after turn {self.turn}")
        if turn > self.turn + 1:
            raise ProblemError("turn_ahead", f"the next turn is {self.turn + 1}, not {turn}")
        return None

    def played(self, turn: int, said: bytes, result: StepResult) -> bytes:
        """Take the result of a turn and return its answer."""
        self.observation = dump(result.observation.to_json())
        self.answer = dump(
            {
                "episode": self.name,
                "turn": turn,
                "observation": orjson.Fragment(self.observation),
                "reward": result.reward,
                "terminated": result.terminated,
                "truncated": result.truncated,
                "info": result.info,
            }
        )
        self.turn, self.said = turn, said
        self.verdict = self.env.verdict
        self.last_trace = None
        if self.traced:
            self.traces.append(self.trace())
        return self.answer

    def fail(self, turn: int, said: bytes, error: Exception) -> ProblemError:
        """Take the failure of the environment in a turn, and return what every asker of this turn is answered."""
        log.error("the environment failed in turn %d of %s", turn, self.name, exc_info=error)
        self.turn, self.said = turn, said
        self.abort(error)
        self.failed = ProblemError("environment_failed", f"{type(error).__name__} in turn {turn}")
        return self.failed

    def abort(self, error: BaseException) -> None:
        """End the episode of a failed environment."""
        if not self.ended:
            self.verdict = self.recorded.abort(type(error).__name__, self.ref)

    def finish(self, ending: Ending) -> None:
        """End the episode, where it has not ended."""
        if self.ended:
            return
        try:
            self.verdict = self.recorded.finish(ending)
        except Exception as error:
            log.error("the environment failed when %s was ended", self.name, exc_info=error)
            self.abort(error)

    def trace(self) -> bytes:
        """Return the last turn seen from inside.

        Raises:
            ProblemError: ``environment_failed``.
        """
        if self.last_trace is None:
            trace = self.env.last_trace
            if trace is None:
                raise ProblemError("environment_failed", "the environment kept no trace of this turn")
            self.last_trace = dump(trace.to_json())
        return self.last_trace

    def labels(self) -> Mapping[str, JSON]:
        """Return what a report sorts the episode by."""
        try:
            return dict(self.env.labels())
        except Exception:  # noqa: BLE001 - boundary: an environment that failed may not know itself any more
            return {}

    def scenario(self) -> str | None:
        """Return the readable name of the scenario."""
        try:
            return self.env.scenario_name()
        except Exception:  # noqa: BLE001 - boundary: see labels
            return None

    def ending(self) -> Ending | None:
        """Return how it ended; None while it runs."""
        return self.recorded.ending

    def pack(self) -> bytes:
        """Return the record, to be kept when the world goes on to another episode."""
        return zlib.compress(self.recorded.to_bytes(), 1)


def unpack(packed: bytes) -> bytes:
    """Return the record that :meth:`Episode.pack` packed."""
    return zlib.decompress(packed)


def begin(
    env: Environment, ref: TaskRef, player: PlayerBody, names: Callable[[], tuple[str, str]], *, traced: bool
) -> Episode:
    """Begin an episode.

    Args:
        env: The world.
        ref: Which scenario.
        player: What its client says of the player.
        names: Makes the episode id and the agent key.
        traced: Whether to keep traces.

    Raises:
        ProblemError: ``task_unknown``, or ``environment_failed``.
    """
    recorded = Recorded(env, privileged=player.privileged, library=player.library)
    try:
        observation = recorded.reset(ref)
        name, agent_key = names()
        return Episode(name, agent_key, recorded, observation, traced=traced)
    except UserError as error:  # its words may name folders of the operator's
        raise ProblemError("task_unknown", f"the scenario {ref.split}/{ref.index} cannot be used here") from error
    except Exception as error:
        log.exception("the environment failed at the beginning of %s/%d", ref.split, ref.index)
        raise ProblemError("environment_failed", f"{type(error).__name__} at the beginning of the episode") from error


def task_to_json(task: Task) -> dict[str, Any]:
    """Return the JSON form of a task."""
    return {
        "env": task.env,
        "ref": task.ref.to_json(),
        "options": dict(task.options),
        "instruction": task.instruction,
    }
