"""The contract: what every environment promises, and the part of it that is the same for all.

An author writes a subclass with a spec, a ``scenario`` function and a handful of hooks (their names begin with an
underscore) that know nothing of turns, budgets, endings, effects or traces; :class:`Environment` adds these. Everything
that changes during an episode lives in ``self.world``.

One turn: the action is parsed (never raising), played call by call, and settled: the turn is counted, limits are
looked at, the verdict is reached if the episode ended, the reward is paid, the observation is bounded. An action that
cannot be parsed or done is a turn too; it says so and leaves the world as it was.

An instance belongs to one caller at a time; fork it or make another for a second one.
"""

from __future__ import annotations

import copy
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, NoReturn

from agentenvs.core import playable
from agentenvs.core.actions import Action, Calls, End, Malformed, Message, ToolCall, parse_action, to_json
from agentenvs.core.aio import run_sync
from agentenvs.core.canon import JSON, canonical_bytes
from agentenvs.core.errors import (
    CapabilityError,
    ContractError,
    EpisodeEnded,
    EpisodeNotStarted,
    SnapshotError,
)
from agentenvs.core.observation import Block, Observation, TextBlock, bound
from agentenvs.core.portable import total
from agentenvs.core.sharing import Sharing
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.task import Scenario, Task, TaskRef
from agentenvs.core.trace import StepTrace
from agentenvs.core.turn import Effect, Outcome, StepResult, TraceParts
from agentenvs.core.verdict import ENDINGS, Ending, Verdict
from agentenvs.core.webpage import WebPage, plain_page

SNAPSHOT_FORMAT = 1

_KINDS: dict[type, str] = {str: "text", ToolCall: "tool", Message: "message", End: "end"}


class _Last(NamedTuple):
    action: Action
    outcome: Outcome
    before: int | str
    after: int | str


class Environment(Sharing, ABC):
    """An environment. Subclass it and write the hooks.

    Args:
        **options: As the spec declares them.

    Raises:
        OptionError: An unknown option or a refused value.
    """

    spec: EnvSpec
    _asynchronous: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Note whether ``_act`` is a coroutine function."""
        super().__init_subclass__(**kwargs)
        cls._asynchronous = inspect.iscoroutinefunction(cls._act)

    def __init__(self, **options: Any) -> None:
        self.options = self.spec.resolve(options)
        self.world: Any = None
        self.current: Scenario | None = None
        self.ref: TaskRef | None = None
        self.turn = 0
        self.ending: Ending | None = None
        self.verdict: Verdict | None = None
        self.effects: list[Effect] = []
        self._fed: list[Effect] | None = None
        self._paid = 0.0
        self._before: int | str = 0
        self._last: _Last | None = None
        self._observation: Observation | None = None
        limit: int | None = self.options.get("limit", self.spec.budgets.get("steps"))
        self._limit = limit or None
        shaping = bool(self.options.get("shaping", False))
        self._gamma: float | None = self.spec.gamma if shaping else None
        self._potential_now = 0.0

    # ---- what an author writes -------------------------------------------------------------------------------------

    @abstractmethod
    def scenario(self, split: str, index: int) -> Scenario:
        """Return a scenario; the same address gives the same scenario.

        Raises:
            SplitError: No such split, or no such index in it.
        """

    @abstractmethod
    def _begin(self, scenario: Any) -> Sequence[Block] | str:
        """Build ``self.world`` from a scenario and return the first observation."""

    @abstractmethod
    def _act(self, action: Action) -> Outcome | Awaitable[Outcome]:
        """Do one action (text, one tool call, a message or an end). May be a coroutine function. Must not raise."""

    @abstractmethod
    def _judge(self, ending: Ending) -> Verdict:
        """Return the verdict on the world as it is; total at any turn."""

    @abstractmethod
    def _key(self) -> int | str:
        """Return the key of the world: equal for equal worlds, whatever the path. Called every turn, so cheap.

        An integer below 2**128 is shown as 32 hexadecimal digits.
        """

    def _save(self) -> JSON:
        """Return ``self.world`` as JSON, for snapshots."""
        raise ContractError(f"{self.spec.id} declares snapshots", fix="write _save(), or declare snapshot: false")

    def _load(self, scenario: Any, saved: JSON) -> None:
        """Set ``self.world`` from what :meth:`_save` returned."""
        raise ContractError(f"{self.spec.id} declares snapshots", fix="write _load(), or declare snapshot: false")

    def _own(self) -> None:
        """Replace what a fresh fork still shares with its original by copies of its own."""
        self.world = copy.deepcopy(self.world)

    def _admissible(self) -> tuple[str, ...] | None:
        """Return the legal text actions, or None where they cannot be told."""
        return None

    def _budgets(self) -> Mapping[str, int]:
        """Return what is left of declared budgets other than ``steps``."""
        return {}

    def _potential(self) -> float:
        """Return the potential Φ of the world (Ng, Harada and Russell 1999)."""
        return 0.0

    def _trace(self) -> TraceParts:
        """Return the facts of the last turn."""
        return TraceParts()

    def _instruction(self) -> str:
        """Return the task sentence."""
        return ""

    def _refusal(self, action: Action, why: str) -> str:
        """Return what a player reads whose action was no action of this environment."""
        return f"Invalid action: {why}."

    @classmethod
    def rejudge(cls, scenario: Any, facts: Mapping[str, JSON], ending: Ending) -> Verdict:
        """Compute a verdict again from a scenario and recorded outcome facts."""
        raise ContractError(f"{cls.__name__} cannot judge recorded facts", fix="write rejudge()")

    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits by name; more than the spec's where an option adds some."""
        return {split.name: split for split in self.spec.splits}

    def labels(self) -> Mapping[str, JSON]:
        """Return what a report sorts the episode by: ``kind`` of task, ``par``. For eyes after the end only."""
        return {}

    def scenario_name(self) -> str:
        """Return the readable name of the scenario; may give the goal away. For eyes after the end only."""
        return "" if self.current is None else self.current.name

    def webpage(self) -> WebPage:
        """Return what a browser shows of the last observation, to be played by clicks; tells no more than that does."""
        return plain_page(self.spec, self.observation, self.admissible())

    # ---- what a caller uses ----------------------------------------------------------------------------------------

    def reset(self, ref: TaskRef | None = None, *, effects: Iterable[Effect] | None = None) -> Observation:
        """Begin an episode.

        Args:
            ref: Which scenario; the first of the default split where None.
            effects: Effects to feed back, at replay.

        Returns:
            The first observation.

        Raises:
            SplitError: No such scenario.
        """
        ref = ref or TaskRef(self.spec.default_split, 0)
        self.check_ref(ref)
        scenario = self.scenario(ref.split, ref.index)
        self.current, self.ref = scenario, ref
        self.turn, self.ending, self.verdict = 0, None, None
        self._paid, self._last = 0.0, None
        self._arm(effects)
        blocks = self._begin(scenario)
        self._before = self._key()
        self._potential_now = 0.0 if self._gamma is None else self._potential()
        if isinstance(blocks, str):
            blocks = (TextBlock(blocks),)
        self._observation = self._observe(tuple(blocks))
        return self._observation

    def step(self, action: Any, *, effects: Iterable[Effect] | None = None) -> StepResult:
        """Play one turn.

        Args:
            action: Anything; what is no action is an invalid turn.
            effects: Effects to feed back, at replay.

        Raises:
            EpisodeNotStarted: Before the first reset.
            EpisodeEnded: After the end.
        """
        if self._asynchronous:
            return run_sync(self.astep(action, effects=effects))
        if self.current is None or self.ending is not None:
            self._refuse_step()
        parsed = parse_action(action)
        self._arm(effects)
        if type(parsed) is str and "text" in self.spec.accepts:
            return self._settle(parsed, self._act(parsed))  # type: ignore[arg-type]
        return self._settle(parsed, self._play(parsed))

    async def astep(self, action: Any, *, effects: Iterable[Effect] | None = None) -> StepResult:
        """Play one turn of an environment whose ``_act`` may be a coroutine; like :meth:`step` otherwise."""
        if not self._asynchronous:
            return self.step(action, effects=effects)
        if self.current is None or self.ending is not None:
            self._refuse_step()
        parsed = parse_action(action)
        self._arm(effects)
        return self._settle(parsed, await self._aplay(parsed))

    def finish(self, ending: Ending) -> Verdict:
        """End the episode, if it has not ended, and return its verdict. Total at any turn after reset.

        Raises:
            EpisodeNotStarted: Before the first reset.
            ContractError: ``ending`` is no ending.
        """
        if self.current is None:
            self._refuse_step()
        if ending not in ENDINGS:
            raise ContractError(f"{ending!r} is no ending", fix=f"one of: {', '.join(ENDINGS)}")
        return self.verdict or self._conclude(ending)

    def fork(self) -> Environment:
        """Return an independent copy at the same turn, in process.

        Raises:
            CapabilityError: The spec does not declare ``forkable``.
            EpisodeNotStarted: Before the first reset.
        """
        if not self.spec.capabilities.forkable:
            raise CapabilityError(f"{self.spec.id} cannot be forked", why="its spec says forkable: false")
        if self.current is None:
            self._refuse_step()
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.effects = list(self.effects)
        twin._own()
        return twin

    def snapshot(self) -> bytes:
        """Return the episode as canonical bytes that :meth:`restore` reads on any machine.

        Raises:
            CapabilityError: The spec does not declare ``snapshot``.
            EpisodeNotStarted: Before the first reset.
        """
        if not self.spec.capabilities.snapshot:
            raise CapabilityError(f"{self.spec.id} has no snapshots", why="its spec says snapshot: false")
        if self.current is None or self.ref is None or self._observation is None:
            self._refuse_step()
        return canonical_bytes(
            {
                "format": SNAPSHOT_FORMAT,
                "env": self.spec.id,
                "release": self.spec.release,
                "options": self.public_options(),
                "task": self.ref.to_json(),
                "scenario": self.current.digest,
                "turn": self.turn,
                "paid": self._paid,
                "ending": self.ending,
                "verdict": self.verdict.to_json() if self.verdict else None,
                "observation": self._observation.to_json(),
                "world": self._save(),
            }
        )

    def restore(self, data: bytes) -> Observation:
        """Go to the state of a snapshot and return its last observation.

        Raises:
            CapabilityError: The spec does not declare ``snapshot``.
            SnapshotError: The bytes are no snapshot of this environment, release, options and scenario.
        """
        if not self.spec.capabilities.snapshot:
            raise CapabilityError(f"{self.spec.id} has no snapshots", why="its spec says snapshot: false")
        form = self._read_snapshot(data)
        try:
            ref = TaskRef(form["task"]["split"], form["task"]["index"])
            scenario = self.scenario(ref.split, ref.index)
            if scenario.digest != form["scenario"]:
                raise SnapshotError(
                    "the snapshot is of another scenario", why=f"{ref} is now {scenario.digest}, not {form['scenario']}"
                )
            verdict = form["verdict"]
            observation = Observation.from_json(form["observation"])
            self.current, self.ref = scenario, ref
            self.turn, self._paid, self.ending = _standing(form)
            self._load(scenario, form["world"])
            self.verdict = None if verdict is None else Verdict.from_json(verdict)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            self.current = None  # half a state is none: the caller must reset, or restore something sound
            raise SnapshotError("the snapshot is damaged", why=repr(error)) from error
        self._last, self._before = None, self._key()
        self._arm(None)
        self._potential_now = 0.0 if self._gamma is None else self._potential()
        self._observation = observation
        return observation

    def close(self) -> None:
        """Give up what the environment holds outside memory. May be called twice."""
        self.current = self.world = None

    # ---- what a caller reads ---------------------------------------------------------------------------------------

    @property
    def observation(self) -> Observation:
        """The last observation.

        Raises:
            EpisodeNotStarted: Before the first reset.
        """
        if self._observation is None:
            self._refuse_step()
        return self._observation

    @property
    def state_key(self) -> str:
        """Key of the world without turn, budget and history: equal states have equal keys."""
        return _shown(self._before)

    @property
    def potential(self) -> float:
        """The potential Φ of the world as it is, once an episode was begun; for trainers, never for a player."""
        return self._potential()

    @property
    def last_trace(self) -> StepTrace | None:
        """The last turn seen from inside, computed now; None before the first turn."""
        last = self._last
        if last is None:
            return None
        action, outcome = last.action, last.outcome
        parts = self._trace() if outcome.valid else TraceParts()
        return StepTrace(
            turn=self.turn,
            state_before=_shown(last.before),
            state_after=_shown(last.after),
            action=to_json(action if parts.canonical is None else parts.canonical),
            valid=outcome.valid,
            error=outcome.error,
            actor=outcome.actor,
            observed=parts.observed,
            used=parts.used,
            written=parts.written,
            milestones=parts.milestones,
            potential=self._potential(),
        )

    @property
    def last_valid(self) -> tuple[bool, str | None]:
        """Whether the last action was valid, and its error code; ``(True, None)`` before the first turn."""
        return (True, None) if self._last is None else (self._last.outcome.valid, self._last.outcome.error)

    def admissible(self) -> tuple[str, ...] | None:
        """Return the legal text actions now, whether or not observations list them; None where they cannot be told."""
        return self._admissible()

    def task(self) -> Task:
        """Return what a policy is told of the episode.

        Raises:
            EpisodeNotStarted: Before the first reset.
        """
        if self.current is None or self.ref is None:
            self._refuse_step()
        return Task(self.spec.id, self.ref, self.public_options(), self._instruction())

    def check_ref(self, ref: TaskRef) -> None:
        """Refuse an address that names no scenario.

        Raises:
            SplitError: No such split, or no such index in it.
        """
        playable.check_ref(self.spec, self.splits(), ref)

    def declared_budgets(self) -> dict[str, int]:
        """Return every budget with what an episode starts with."""
        return playable.declared_budgets(self.spec, self.options)

    def public_options(self) -> dict[str, JSON]:
        """Return the options that belong to the episode, without those of the machine."""
        machine = {option.name for option in self.spec.options if option.secret}
        return {name: value for name, value in self.options.items() if name not in machine}

    # ---- effects ---------------------------------------------------------------------------------------------------

    def effect(self, kind: str, produce: Callable[[], JSON]) -> JSON:
        """Return what the actions do not determine: made now, or fed back at replay.

        Args:
            kind: A stable name, e.g. ``engine.rows``.
            produce: Makes the value; not called at replay.

        Raises:
            ContractError: At replay, another effect was recorded at this place.
        """
        if self._fed is None:
            made = Effect(kind, produce())
        elif self._fed and self._fed[0].kind == kind:
            made = self._fed.pop(0)
        else:
            recorded = self._fed[0].kind if self._fed else "none"
            raise ContractError(f"effect {kind!r} was not recorded here", why=f"the record has: {recorded}")
        self.effects.append(made)
        return made.value

    async def aeffect(self, kind: str, produce: Callable[[], Awaitable[JSON]]) -> JSON:
        """Like :meth:`effect` for what must be awaited."""
        if self._fed is not None:
            return self.effect(kind, lambda: None)
        value = await produce()
        return self.effect(kind, lambda: value)

    # ---- the machinery ---------------------------------------------------------------------------------------------

    def _arm(self, effects: Iterable[Effect] | None) -> None:
        if self.effects:
            self.effects = []
        self._fed = None if effects is None else list(effects)

    def _check(self, action: Action) -> Outcome | None:
        """Return the outcome of an action this environment does not take, or None."""
        if isinstance(action, Malformed):
            return self._refused(action, "malformed", action.why)
        if isinstance(action, Calls):
            if len(action.calls) > self.spec.max_calls:
                most = f"at most {self.spec.max_calls} tool calls a turn, not {len(action.calls)}"
                return self._refused(action, "too_many_calls", most)
            kind = "tool"
        else:
            kind = _KINDS[type(action)]
        if kind in self.spec.accepts:
            return None
        return self._refused(action, "wrong_kind", f"this environment takes {', '.join(self.spec.accepts)}, not {kind}")

    def _refused(self, action: Action, code: str, why: str) -> Outcome:
        return Outcome((TextBlock(self._refusal(action, why)),), valid=False, error=code)

    @staticmethod
    def _parts(action: Action) -> tuple[Action, ...]:
        return action.calls if isinstance(action, Calls) else (action,)

    def _play(self, action: Action) -> Outcome:
        refused = self._check(action)
        if refused is not None:
            return refused
        outcomes: list[Outcome] = []
        for call in self._parts(action):
            outcomes.append(self._act(call))  # type: ignore[arg-type]
            if outcomes[-1].ended:
                break
        return _joined(outcomes)

    async def _aplay(self, action: Action) -> Outcome:
        refused = self._check(action)
        if refused is not None:
            return refused
        outcomes: list[Outcome] = []
        for call in self._parts(action):
            outcomes.append(await self._act(call))  # type: ignore[misc]
            if outcomes[-1].ended:
                break
        return _joined(outcomes)

    def _settle(self, action: Action, outcome: Outcome) -> StepResult:
        """Count the turn, look at the limits, reach the verdict, pay, and show."""
        self.turn += 1
        after = self._key()
        self._last = _Last(action, outcome, self._before, after)
        self._before = after
        terminated = outcome.ended and outcome.ending == "terminated"
        truncated = not terminated and (outcome.ended or (self._limit is not None and self.turn >= self._limit))
        reward = outcome.reward
        self._paid += reward
        if terminated or truncated:
            verdict = self._conclude(outcome.ending if outcome.ended else "truncated")
            if self.spec.capabilities.rewards == "final":
                reward = verdict.reward
        if self._gamma is not None:
            reward += self._shaped(terminated)
        self._observation = observation = self._observe(outcome.blocks)
        info: dict[str, JSON] = {"invalid": not outcome.valid}
        if outcome.data is not None:
            info["data"] = dict(outcome.data)
        return StepResult(observation, reward, terminated, truncated, info)

    def _shaped(self, terminated: bool) -> float:
        """Return ``gamma * Φ(s') - Φ(s)``, Φ(terminated) = 0 (Ng, Harada and Russell 1999; Grzes 2017)."""
        before, after = self._potential_now, 0.0 if terminated else self._potential()
        self._potential_now = after
        return (self._gamma or 0.0) * after - before

    def _observe(self, blocks: tuple[Block, ...]) -> Observation:
        budgets = dict(self._budgets())
        if self._limit is not None:
            budgets["steps"] = max(self._limit - self.turn, 0)
        admissible = self._admissible() if self.options.get("admissible") else None
        return Observation(bound(blocks, self.spec.max_observation_bytes), admissible, budgets)

    def _conclude(self, ending: Ending) -> Verdict:
        verdict = self._judge(ending)
        if self.spec.capabilities.rewards == "step":
            verdict = replace(verdict, reward=self._paid)
        self.ending, self.verdict = ending, verdict
        return verdict

    def _refuse_step(self) -> NoReturn:
        if self.current is None:
            raise EpisodeNotStarted(f"{self.spec.id} has no episode", fix="call reset() first")
        raise EpisodeEnded(
            f"the episode of {self.spec.id} has ended ({self.ending})", fix="call reset() to begin another"
        )

    def _read_snapshot(self, data: bytes) -> dict[str, JSON]:
        try:
            form = json.loads(data)
            canonical_bytes(form)  # no infinity and no lone surrogate, which the next snapshot could not hold
            found = (form["format"], form["env"], form["release"], form["options"])
        except (ValueError, KeyError, TypeError, RecursionError, ContractError) as error:
            raise SnapshotError("these bytes are no snapshot", why=repr(error)) from error
        wanted = (SNAPSHOT_FORMAT, self.spec.id, self.spec.release, self.public_options())
        if found != wanted:
            raise SnapshotError("the snapshot is of another environment", why=f"it says {found}, this is {wanted}")
        return form  # type: ignore[no-any-return]


def _standing(form: Mapping[str, JSON]) -> tuple[int, float, Ending | None]:
    """Return turn, reward paid and ending of a snapshot.

    Raises:
        ValueError: They make no sense.
    """
    turn, paid, ending = form["turn"], form["paid"], form["ending"]
    sound = type(turn) is int and 0 <= turn < 2**53 and type(paid) in (int, float)
    if not sound or ending not in (None, *ENDINGS) or (ending is None) != (form["verdict"] is None):
        raise ValueError(f"turn {turn!r:.40}, paid {paid!r:.40} and ending {ending!r:.40} make no sense")
    return turn, paid, ending


def _joined(outcomes: list[Outcome]) -> Outcome:
    """Return one outcome for the calls of a turn: one block a call, valid if any call was."""
    if len(outcomes) == 1:
        return outcomes[0]
    valid = any(outcome.valid for outcome in outcomes)
    return Outcome(
        blocks=tuple(_one_block(outcome.blocks) for outcome in outcomes),
        valid=valid,
        error=None if valid else outcomes[0].error,
        ended=outcomes[-1].ended,
        ending=outcomes[-1].ending,
        reward=total(outcome.reward for outcome in outcomes),
        data={"calls": [{"valid": outcome.valid, **(outcome.data or {})} for outcome in outcomes]},
        actor=outcomes[-1].actor,
    )


def _one_block(blocks: tuple[Block, ...]) -> Block:
    return blocks[0] if len(blocks) == 1 else TextBlock(Observation(blocks).text)


def _shown(key: int | str) -> str:
    return f"{key:032x}" if isinstance(key, int) else key


__all__ = ["Effect", "Environment", "Outcome", "StepResult", "TraceParts"]
