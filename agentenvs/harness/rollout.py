"""Plays one episode to its end, whatever the policy or the environment does.

Every started episode gets an ending, a verdict and a record. A policy that raises has abandoned its episode; an
environment that raises has aborted it; both count, with reward 0, and what went wrong stands in the sidecar. A policy
or an environment that does not come back is cut from another thread.
"""

from __future__ import annotations

import inspect
import json
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from agentenvs.core.actions import parse_action, to_json
from agentenvs.core.aio import run_sync
from agentenvs.core.canon import JSON, canonical_bytes, clean_text
from agentenvs.core.errors import AgentEnvsError, ContractError, ServiceError, SplitError
from agentenvs.core.observation import Observation
from agentenvs.core.playable import Playable
from agentenvs.core.policy import Policy, Privileged
from agentenvs.core.record import Record, parse_records
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import FAILURES, StepResult
from agentenvs.core.verdict import Ending, Verdict
from agentenvs.harness.recording import Recorder, recorder
from agentenvs.harness.stopping import PolicyStop

CUT_SECONDS = 1.0
"""How long a cut waits for an environment at work."""


Fault = Literal["policy", "environment", "service"]
"""Whose failure ended an episode: ``service`` is a server or a model endpoint that stayed away."""


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """One line of ``episodes.jsonl``: only what actions and scenario determine, and what the policy counted."""

    number: int
    """Position in the run, from 0."""
    split: str
    index: int
    scenario: str
    scenario_digest: str | None
    """None where the environment failed before it knew its scenario."""
    record: str
    """Digest of the episode record."""
    kind: str | None
    """Task type, where the environment has several."""
    par: int | None
    """Steps of the shortest solution, where proved."""
    ending: str
    success: bool
    """As counted: never for an episode that was abandoned or aborted."""
    reward: float
    """The verdict's reward, as counted."""
    episode_return: float
    """Sum of the rewards paid, shaping included, as counted."""
    turns: int
    invalid: int
    """Turns whose action could not be parsed or done."""
    undone: int = 0
    """Those among them in which the environment failed, and not the player."""
    stopped: str | None = None
    """Why it was ended from outside the world without anybody's failure: a limit of the run or of the player."""
    error: str | None = None
    """What went wrong outside the world: the policy's or the environment's failure, in a few words."""
    usage: dict[str, int | None] = field(default_factory=dict)
    """Tokens and cost, where the policy counts them."""
    metrics: dict[str, JSON] = field(default_factory=dict)
    """What a protocol counts beside the verdict."""
    fault: Fault | None = None
    """Whose failure ``error`` is; None where there is none."""
    attempt: int = 1
    """How often this episode had been begun; more than 1 where earlier attempts failed or were lost."""
    difficulty: str | None = None
    """Of the scenario, where the environment has a ladder."""

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

    def __init__(self, ending: Ending, error: BaseException) -> None:
        super().__init__(ending)
        self.ending = ending
        self.error = error


class _Cut(Exception):
    """Another thread has ended the episode meanwhile."""


def play(
    env: Playable,
    policy: Policy,
    ref: TaskRef,
    *,
    number: int = 0,
    library: str | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Episode:
    """Play one episode.

    Args:
        env: Any environment, here or behind a wire, ended or not; it is reset.
        policy: Who acts.
        ref: Which scenario.
        number: Position in the run.
        library: Digest of what the policy carried over from earlier episodes.
        stop: Asked before each turn; True abandons the episode.

    Raises:
        SplitError: No such scenario: nothing was started.
    """
    episode = Rollout(env, policy, ref, number=number, library=library).run(stop)
    if episode is None:
        raise ContractError("an episode that nobody can cut was cut")
    return episode


def counted(ending: Ending, verdict: Verdict) -> tuple[float, bool]:
    """Return the reward and the success an episode counts with in a run.

    One that its player left, or its host lost, earns nothing whatever the world had reached; a loss stays a loss.
    """
    if ending in ("abandoned", "aborted"):
        return min(verdict.reward, 0.0), False
    return verdict.reward, verdict.success


def outcome(footer: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return what the footer of a record says in the summary of its episode, by the names it has there."""
    ending, earned = footer["ending"], footer["return"]
    reward, success = counted(ending, Verdict.from_json(footer["verdict"]))
    return {
        "ending": ending,
        "success": success,
        "reward": reward,
        "episode_return": min(earned, 0.0) if ending in ("abandoned", "aborted") else earned,
        "turns": footer["turns"],
    }


class Rollout:
    """One episode while it is played; another thread may cut it.

    The environment is touched only under ``_busy``, so that a thread that holds it may end the episode of a policy that
    does not answer. Whoever claims the episode first hands it over; the other comes away with None.
    """

    def __init__(
        self, env: Playable, policy: Policy, ref: TaskRef, *, number: int = 0, library: str | None = None
    ) -> None:
        self.recorded: Recorder = recorder(env, privileged=isinstance(policy, Privileged), library=library)
        self.started = time.monotonic()
        self._policy = policy
        self._ref = ref
        self._number = number
        self._words = _Words()
        self._busy = threading.Lock()
        self._claim = threading.Lock()

    def run(self, stop: Callable[[], bool]) -> Episode | None:
        """Play until the end, or until told to stop.

        Returns:
            The episode, or None where :meth:`cut` has handed it over.

        Raises:
            SplitError: No such scenario: nothing was started.
        """
        failure: _Failure | None = None
        said: PolicyStop | None = None
        try:
            self._play(stop)
        except _Cut:
            return None
        except PolicyStop as enough:
            said = enough
        except _Failure as failed:
            if self._words.first is None and isinstance(failed.error, SplitError):
                raise failed.error from None
            failure = failed
        with self._busy:
            if not self._claim.acquire(blocking=False):
                return None
            if said is not None:
                return self._handed_over(said.ending, None, said.reason)
            if failure is not None:
                return self._handed_over(failure.ending, failure.error, None)
            return self._handed_over("abandoned", None, None if self.recorded.ended else "interrupted")

    def cut(self, ending: Ending, why: str) -> Episode | None:
        """End the episode from another thread.

        A policy at work leaves a world that can be judged; an environment at work cannot be asked any more, so its
        episode is aborted.

        Returns:
            The episode, or None where it came to its end by itself.
        """
        idle = self._busy.acquire(timeout=CUT_SECONDS)
        try:
            if not self._claim.acquire(blocking=False):
                return None
            if idle:
                return self._handed_over(ending, None, why)
            return self._handed_over("aborted", TimeoutError(f"the environment was still at work: {why}"), why)
        finally:
            if idle:
                self._busy.release()

    def _play(self, stop: Callable[[], bool]) -> None:
        env, policy = self.recorded.env, self._policy
        observation: Observation = self._world(self.recorded.reset, self._ref)
        self._words.first = observation.text
        numbered = getattr(policy, "numbered", None)
        if callable(numbered):  # its chance differs from trial to trial, and is the same when a run goes on
            guarded("abandoned", numbered, self._number)
        guarded("abandoned", policy.reset, env.spec, self._world(env.task))
        if isinstance(policy, Privileged):
            guarded("abandoned", policy.reveal, self._world(lambda: self.recorded.scenario))
        while env.ending is None and not stop():
            action = guarded("abandoned", self._act, observation)
            result: StepResult = self._world(self.recorded.step, action)
            self._words.add(action, result)
            observation = result.observation

    def _world(self, call: Callable[..., Any], *arguments: Any) -> Any:
        with self._busy:
            if self._claim.locked():
                raise _Cut
            return guarded("aborted", call, *arguments)

    def _act(self, observation: Observation) -> Any:
        action = self._policy.act(observation)
        return run_sync(_awaited(action)) if inspect.isawaitable(action) else action

    def _handed_over(self, ending: Ending, error: BaseException | None, stopped: str | None) -> Episode:
        data, failed = _close(self.recorded, ending, error, self._ref)
        error = error or failed
        record = parse_records(data)[0]
        seconds = time.monotonic() - self.started
        verdict = record.verdict or Verdict(0.0, False)
        sidecar: dict[str, JSON] = {
            "number": self._number,
            "first_observation": self._words.first,
            "turns": list(self._words.turns),
            "verdict": verdict.to_json(),
            "policy": _kept(_asked(self._policy, "sidecar")),
            "error": None if error is None else "".join(traceback.format_exception(error)),
            "wall_seconds": round(seconds, 6),
        }
        summary = self._summary(record, verdict)
        words = _words(error)
        if words is None and summary.ending == "aborted":  # the environment has ended it itself
            words = "; ".join(verdict.reasons) or "the environment failed"
        fault = None if words is None else _fault(error, summary.ending)
        return Episode(replace(summary, error=words, stopped=stopped, fault=fault), data, sidecar)

    def _summary(self, record: Record, verdict: Verdict) -> EpisodeSummary:
        env, footer = self.recorded.env, record.footer or {}
        begun = record.header["observation"] is not None
        labels = _labels(env) if begun else {}
        return EpisodeSummary(
            number=self._number,
            split=record.ref.split,
            index=record.ref.index,
            scenario=env.scenario_name() if begun else "",
            scenario_digest=record.header["scenario"],
            record=record.digest,
            kind=labels.get("kind"),
            par=labels.get("par"),
            **outcome(footer),
            invalid=sum(not turn["valid"] for turn in record.turns),
            undone=sum(turn["error"] in FAILURES for turn in record.turns),
            usage=_usage(self._policy),
            metrics=_counts(_asked(self._policy, "metrics", verdict)),
            difficulty=None if (rung := labels.get("difficulty")) is None else str(rung),
        )


class _Words:
    """What was said and shown."""

    def __init__(self) -> None:
        self.first: str | None = None
        self.turns: list[dict[str, JSON]] = []

    def add(self, action: Any, result: StepResult) -> None:
        self.turns.append(
            {
                "action": to_json(parse_action(action)),
                "observation": result.observation.text,
                "reward": result.reward,
                "invalid": result.info["invalid"],
            }
        )


def guarded(ending: Ending, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call what others wrote; whatever it raises becomes a failure that says whose it was."""
    try:
        return call(*arguments)
    except PolicyStop as stop:
        if stop.ending not in ("truncated", "abandoned"):
            raise _Failure(ending, ContractError(f"a policy cannot make an episode {stop.ending!r}")) from stop
        raise
    except BaseException as error:
        if _is_interrupt(error):
            raise
        raise _Failure(ending, error) from error


def _is_interrupt(error: BaseException) -> bool:
    """Whether it is somebody at the keyboard, of whom Python tells the main thread only, and nobody's own doing."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


async def _awaited(action: Any) -> Any:
    return await action


def _close(
    recorded: Recorder, ending: Ending, error: BaseException | None, ref: TaskRef
) -> tuple[bytes, Exception | None]:
    """End an episode that did not end by itself; a failed environment is not asked for a verdict.

    Returns:
        The record, and what went wrong at the end where something did.
    """
    if not recorded.ended and ending == "aborted":
        recorded.abort(type(error).__name__, ref)
        return recorded.to_bytes(), None
    try:
        if not recorded.ended:
            recorded.finish(ending)
        return recorded.to_bytes(), None
    except Exception as failed:  # noqa: BLE001 - boundary: an environment that cannot even end is an aborted episode
        recorded.abort(type(failed).__name__, ref)
        return recorded.to_bytes(), failed


def _labels(env: Playable) -> Mapping[str, JSON]:
    try:
        return env.labels()
    except Exception:  # noqa: BLE001 - boundary: an environment that failed may not know itself any more
        return {}


def _asked(policy: Policy, name: str, *arguments: Any) -> Any:
    """Return what an optional method of a policy says; one that fails says nothing."""
    method = getattr(policy, name, None)
    if not callable(method):
        return None
    try:
        return method(*arguments)
    except BaseException as error:
        if _is_interrupt(error):
            raise
        return {"error": _words(error)}


def _kept(said: Any) -> JSON:
    """Return a policy's share of the sidecar as JSON; what has no such form costs only itself."""
    try:
        return json.loads(json.dumps(said, default=repr))
    except Exception as error:  # noqa: BLE001 - boundary: a policy may hand over anything
        return {"error": _words(error)}


def _counts(said: Any) -> dict[str, JSON]:
    """Return what a policy counted by name; what a table cannot hold says so."""
    try:
        return dict(json.loads(canonical_bytes(dict(said or {}))))
    except Exception as error:  # noqa: BLE001 - boundary: a policy may hand over anything
        return {"error": _words(error)}


def _usage(policy: Policy) -> dict[str, int | None]:
    """Return the numbers a policy counted; None for what it cannot tell."""
    try:
        found = _counts(getattr(policy, "usage", None))
    except Exception:  # noqa: BLE001 - boundary: a policy's bookkeeping must not cost its episode
        return {}
    return {name: value if type(value) in (int, float) else None for name, value in found.items()}


def _fault(error: BaseException | None, ending: str) -> Fault:
    if isinstance(error, ServiceError):
        return "service"
    return "environment" if ending == "aborted" else "policy"


def _words(error: BaseException | None) -> str | None:
    if error is None:
        return None
    try:
        said = str(error.what) if isinstance(error, AgentEnvsError) else f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - boundary: an exception of others may not even be able to say what it is
        said = type(error).__name__
    return clean_text(said[:300])
