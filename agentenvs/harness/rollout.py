"""Plays one episode to its end, whatever the policy or the environment does.

Every started episode gets an ending, a verdict and a record. A policy that raises has abandoned its episode; an
environment that raises has aborted it; both count, with reward 0, and what went wrong stands in the sidecar.
"""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from agentenvs.core.actions import parse_action, to_json
from agentenvs.core.aio import run_sync
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.observation import Observation
from agentenvs.core.policy import Policy, Privileged
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import StepResult
from agentenvs.core.verdict import Verdict


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """One line of ``episodes.jsonl``: only what actions and scenario determine, and what the policy counted."""

    number: int
    """Position in the run, from 0."""
    split: str
    index: int
    scenario: str
    scenario_digest: str
    record: str
    """Digest of the episode record."""
    kind: str | None
    """Task type, where the environment has several."""
    par: int | None
    """Steps of the shortest solution, where proved."""
    ending: str
    success: bool
    reward: float
    """The verdict's reward."""
    episode_return: float
    """Sum of the rewards paid, shaping included."""
    turns: int
    invalid: int
    """Turns whose action could not be parsed or done."""
    error: str | None = None
    """What went wrong outside the world: the policy's or the environment's failure, in a few words."""
    usage: dict[str, int | None] = field(default_factory=dict)
    """Tokens and cost, where the policy counts them."""
    metrics: dict[str, JSON] = field(default_factory=dict)
    """What a protocol counts beside the verdict."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Episode:
    """What came of an episode."""

    summary: EpisodeSummary
    record: bytes
    sidecar: dict[str, JSON]
    """Texts, raw replies, times: everything that is not reproducible or not needed to replay."""


class _Failure(Exception):
    """Carries whose fault an exception was."""

    def __init__(self, ending: str, error: Exception) -> None:
        super().__init__(str(error))
        self.ending = ending
        self.error = error


def play(
    env: Environment,
    policy: Policy,
    ref: TaskRef,
    *,
    number: int = 0,
    library: str | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Episode:
    """Play one episode.

    Args:
        env: Any environment, ended or not; it is reset.
        policy: Who acts.
        ref: Which scenario.
        number: Position in the run.
        library: Digest of what the policy carried over from earlier episodes.
        stop: Asked before each turn; True abandons the episode.

    Raises:
        SplitError: No such scenario: nothing was started.
    """
    started = time.perf_counter()
    recorded = Recorded(env, privileged=isinstance(policy, Privileged), library=library)
    observation = recorded.reset(ref)
    script = _Script(recorded, policy)
    error: Exception | None = None
    try:
        script.run(observation, stop)
    except _Failure as failure:
        error = failure.error
        _close(recorded, failure)
    if not recorded.ended:
        _close(recorded, None)
    seconds = time.perf_counter() - started
    return _episode(recorded, policy, number, script, error, seconds)


class _Script:
    """The loop of an episode, and the words that were exchanged."""

    def __init__(self, recorded: Recorded, policy: Policy) -> None:
        self.recorded = recorded
        self.policy = policy
        self.turns: list[dict[str, JSON]] = []
        self.first = ""

    def run(self, observation: Observation, stop: Callable[[], bool]) -> None:
        """Play until the end, or until told to stop."""
        env = self.recorded.env
        self.first = observation.text
        self._guard("abandoned", self._begin)
        while env.ending is None and not stop():
            action = self._guard("abandoned", self._act, observation)
            result: StepResult = self._guard("aborted", self.recorded.step, action)
            self.turns.append(
                {
                    "action": to_json(parse_action(action)),
                    "observation": result.observation.text,
                    "reward": result.reward,
                    "invalid": result.info["invalid"],
                }
            )
            observation = result.observation

    def _begin(self) -> None:
        env = self.recorded.env
        self.policy.reset(env.spec, env.task())
        if isinstance(self.policy, Privileged):
            self.policy.reveal(env.current)

    def _act(self, observation: Observation) -> Any:
        action = self.policy.act(observation)
        return run_sync(_awaited(action)) if inspect.isawaitable(action) else action

    @staticmethod
    def _guard(ending: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            raise _Failure(ending, error) from error


async def _awaited(action: Any) -> Any:
    return await action


def _close(recorded: Recorded, failure: _Failure | None) -> Verdict:
    """End an episode that did not end by itself."""
    if failure is not None and failure.ending == "aborted":
        return recorded.abort(type(failure.error).__name__)
    try:
        return recorded.finish("abandoned")
    except Exception as error:  # noqa: BLE001 - boundary: an environment that cannot even end is an aborted episode
        return recorded.abort(type(error).__name__)


def _episode(
    recorded: Recorded, policy: Policy, number: int, script: _Script, error: Exception | None, seconds: float
) -> Episode:
    data = recorded.to_bytes()
    record = parse_records(data)[0]
    footer, verdict = record.footer or {}, record.verdict or Verdict(0.0, False)
    env = recorded.env
    scenario = env.current
    labels = env.labels() if scenario is not None else {}
    summary = EpisodeSummary(
        number=number,
        split=record.ref.split,
        index=record.ref.index,
        scenario=scenario.name if scenario is not None else "",
        scenario_digest=record.header["scenario"],
        record=record.digest,
        kind=labels.get("kind"),
        par=labels.get("par"),
        ending=footer["ending"],
        success=verdict.success,
        reward=verdict.reward,
        episode_return=footer["return"],
        turns=footer["turns"],
        invalid=sum(not turn["valid"] for turn in record.turns),
        error=_words(error),
        usage=dict(getattr(policy, "usage", None) or {}),
        metrics=_asked(policy, "metrics") or {},
    )
    sidecar: dict[str, JSON] = {
        "number": number,
        "first_observation": script.first,
        "turns": script.turns,
        "verdict": verdict.to_json(),
        "policy": _asked(policy, "sidecar"),
        "error": None if error is None else "".join(traceback.format_exception(error)),
        "wall_seconds": round(seconds, 6),
    }
    return Episode(summary, data, sidecar)


def _asked(policy: Policy, name: str) -> Any:
    """Return what an optional method of a policy says; one that fails says nothing."""
    method = getattr(policy, name, None)
    if not callable(method):
        return None
    try:
        return method()
    except Exception as error:  # noqa: BLE001 - boundary: a policy's bookkeeping must not cost its episode
        return {"error": repr(error)}


def _words(error: Exception | None) -> str | None:
    if error is None:
        return None
    return error.what if isinstance(error, AgentEnvsError) else f"{type(error).__name__}: {error}"[:300]
