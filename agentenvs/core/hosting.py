"""Environments that may hang, crash or never return: each lives in a worker process that can be killed.

:class:`Hosted` is an :class:`~agentenvs.core.environment.Environment` whose author's hooks run in the worker. A turn
that overruns its limit, takes the process down or raises is *undone*: the worker is killed, a new one is brought to the
world as it was before the turn (a checkpoint, and the turns since, effects fed back), and the turn becomes an invalid
one that says so. That it was undone is an effect, so a replay gives the same bytes without running the step again.
Where the world cannot be brought back, or after :data:`MOST_UNDONE` undone turns in a row, the episode ends as
``aborted``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentenvs.core import limits, pool
from agentenvs.core.actions import Action, parse_action, to_json
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, CapabilityError, ContractError, SnapshotError
from agentenvs.core.frames import MAX_FRAME
from agentenvs.core.observation import Block, TextBlock, block_from_json
from agentenvs.core.process import Worker, WorkerFailure
from agentenvs.core.record import effects_of, effects_to_json
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.trace import Fact
from agentenvs.core.turn import Effect, Outcome, StepResult, TraceParts
from agentenvs.core.verdict import Ending, Verdict

MOST_UNDONE = 3
"""Undone turns in a row that end an episode."""

STEP_SECONDS = 60.0
"""Wall-clock limit of a turn where the spec names none."""

CALL_SECONDS = 60.0
"""Wall-clock limit of everything but a turn: beginning, saving, loading, judging."""

CHECKPOINT_TURNS = 64
CHECKPOINT_SECONDS = 0.25
"""The turns since the last checkpoint, by number and by the time they took, before the next one is taken."""

STEP_UNDONE = "step_undone"
"""Kind of the effect that says a turn was undone."""

_LOST = "environment_lost"
_WORDS = {
    "step_timeout": "it took longer than {seconds:g} s",
    "step_crashed": "the environment crashed",
    "step_raised": "the environment failed",
    "step_memory": "it needed more than {memory} MB of memory",
    "step_cpu": "it used more than {cpu:g} s of processor time",
    "step_size": "it said or held more than {size} MB",
}
_NONSENSE = (KeyError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True)
class HostedScenario:
    """A scenario as its worker describes it: data, without the guest's classes."""

    name: str
    digest: str
    form: Mapping[str, JSON]

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return dict(self.form)


class _Played(NamedTuple):
    action: JSON
    turn: int
    effects: list[JSON]


class _Origin(NamedTuple):
    """Where a world can be built from: the beginning of an episode with its effects, or a saved world."""

    turn: int
    effects: list[JSON]
    saved: JSON = None


class Hosted(Environment):
    """An environment in a worker process.

    Args:
        spec: Its spec, with ``execution: process``.
        **options: As the spec declares them.

    Raises:
        ContractError: The worker cannot make it.
        OptionError: An unknown option or a refused value.
    """

    def __init__(self, spec: EnvSpec, **options: Any) -> None:
        self.spec = spec
        super().__init__(**options)
        self._worker: Worker | None = pool.worker(spec, self.options)
        self._origin: _Origin | None = None
        self._played: list[_Played] = []
        self._seconds = 0.0
        self._report: dict[str, JSON] = {}
        self._words = ""
        self._undone = 0
        self._lost = False
        self._traced: TraceParts | None = None
        self.failure = ""
        """Why the last turn that was undone failed: kind and line, for its author; it stands in no record."""

    # ---- what a caller uses ----------------------------------------------------------------------------------------

    async def astep(self, action: Any, *, effects: Iterable[Effect] | None = None) -> StepResult:
        """Play one turn without holding the event loop; like :meth:`step` otherwise."""
        return await asyncio.to_thread(self.step, action, effects=effects)

    def fork(self) -> Environment:
        """Return an independent copy at the same turn, with a worker of its own; see :meth:`Environment.fork`."""
        if self.spec.capabilities.forkable and not self.spec.capabilities.snapshot:
            raise CapabilityError(f"{self.spec.id} cannot be forked", why="a worker's world is forked by its snapshot")
        return super().fork()

    def close(self) -> None:
        """End the worker; may be called twice, and from another thread while a step is under way."""
        super().close()
        worker, self._worker, self._origin = self._worker, None, None
        if worker is not None:
            worker.close()

    def resident_bytes(self) -> int | None:
        """Return the memory of the worker in bytes; None where the system does not say."""
        found: int | None = self._ask("resident")
        return found

    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits by name."""
        return {form["name"]: SplitSpec(**form) for form in self._ask("splits")}

    def scenario(self, split: str, index: int) -> HostedScenario:
        """Return a scenario as data."""
        return HostedScenario(**self._ask("scenario", split=split, index=index))

    def labels(self) -> Mapping[str, JSON]:
        """Return what a report sorts the episode by; nothing where the world is gone."""
        return {} if self._lost or self._origin is None else dict(self._world("labels"))

    def rejudge(self, scenario: Any, facts: Mapping[str, JSON], ending: Ending) -> Verdict:  # type: ignore[override]
        """Compute a verdict again, in the worker."""
        if ending == "aborted" and list(facts) == [_LOST]:
            return _lost(facts[_LOST])
        return Verdict.from_json(self._ask("rejudge", **self._address(), facts=dict(facts), ending=ending))

    # ---- hooks -----------------------------------------------------------------------------------------------------

    def _begin(self, scenario: HostedScenario) -> tuple[Block, ...]:
        self._origin, self._undone, self._lost = None, 0, False
        fed = None if self._fed is None else effects_to_json(self._fed)
        report = self._ask("begin", **self._address(), effects=fed)
        blocks = tuple(block_from_json(block) for block in report["blocks"])
        self._settled(_Origin(0, report["effects"]), report)
        self._account(report)
        return blocks

    def _act(self, action: Action) -> Outcome:
        return self._turn(action)

    def _play(self, action: Action) -> Outcome:
        return self._turn(action)

    def _conclude(self, ending: Ending) -> Verdict:
        verdict = super()._conclude(ending)
        if self._lost:  # also where the world could not be judged
            self.ending = "aborted"
        return verdict

    def _judge(self, ending: Ending) -> Verdict:
        if not self._lost:
            try:
                return Verdict.from_json(self._world("judge", ending=ending, turn=self.turn))
            except (AgentEnvsError, *_NONSENSE):
                self._lost = True
        return _lost(self._paid if self.spec.capabilities.rewards == "step" else 0.0)

    def _key(self) -> int | str:
        return self._report["key"]  # type: ignore[no-any-return]

    def _save(self) -> JSON:
        if self._lost:
            raise SnapshotError(f"{self.spec.id} has no world any more", why="it was lost in a failure")
        return {"undone": self._undone, "world": self._world("save")}

    def _load(self, scenario: Any, saved: JSON) -> None:
        self._origin, self._undone, self._lost = None, int(saved["undone"]), False
        try:
            report = self._ask("load", **self._address(), turn=self.turn, saved=saved["world"])
        except ContractError as error:
            raise ValueError(error.why) from error
        self._settled(_Origin(self.turn, [], saved["world"]), report)

    def _own(self) -> None:
        if not self._lost:
            self._traced = None if self._last is None else self._trace()
            self._checkpoint(self._world("save"))
        self._worker = None  # the original's; the twin starts its own when it needs one

    def _admissible(self) -> tuple[str, ...] | None:
        listed = self.options.get("admissible")
        found = self._report["admissible"] if listed or self._lost else self._world("admissible")
        return None if found is None else tuple(found)

    def _budgets(self) -> Mapping[str, int]:
        return self._report["budgets"]  # type: ignore[no-any-return]

    def _potential(self) -> float:
        known = self._report["potential"]
        if known is None:
            known = 0.0 if self._lost else self._world("potential")
        return float(known)

    def _instruction(self) -> str:
        return self._words

    def _trace(self) -> TraceParts:
        if self._lost or self._undone:
            return TraceParts()
        if self._traced is None:
            self._traced = _parts(self._world("trace", turn=self.turn))
        return self._traced

    # ---- a turn ----------------------------------------------------------------------------------------------------

    def _turn(self, action: Action) -> Outcome:
        """Play a turn in the worker, all its calls in one message; undo it where that fails."""
        if self._origin is None:
            raise ContractError(f"{self.spec.id} has no world", why="its last reset failed", fix="reset it again")
        self._traced = None
        if self._fed and self._fed[0].kind == STEP_UNDONE:
            return self._undone_again(self._fed.pop(0))
        try:
            outcome, report, seconds = self._done(to_json(action))
        except WorkerFailure as failure:
            if self.current is None:  # closed by another thread meanwhile
                self._refuse_step()
            self.failure = failure.why
            return self._undo(failure.code)
        self._undone = 0
        self._seconds += seconds
        self._played.append(_Played(to_json(action), self.turn, report["effects"]))
        self._report = report
        self._account(report)
        if "saved" in report:
            self._checkpoint(report.pop("saved"), self.turn + 1)
        return outcome

    def _done(self, form: JSON) -> tuple[Outcome, dict[str, JSON], float]:
        """Do a turn within its limit.

        Returns:
            What came of it, the report on the world after it, the seconds it took.

        Raises:
            ContractError: At replay: an effect was not recorded here.
            WorkerFailure: It did not come to an end; the worker is gone.
        """
        fed = None if self._fed is None else effects_to_json(self._fed)
        worker = self._present()
        started = time.monotonic()
        try:
            report = worker.ask(
                "play", self._limit_seconds(), action=form, turn=self.turn, effects=fed, save=self._is_due()
            )
            return _outcome(report["outcome"]), _checked(report), time.monotonic() - started
        except AgentEnvsError as error:
            if fed is not None and isinstance(error, ContractError):
                raise
            worker.kill()
            raise WorkerFailure("step_raised", f"{type(error).__name__}: {error.what} in play") from error
        except _NONSENSE as error:
            worker.kill()
            raise WorkerFailure("step_crashed", "the reply makes no sense") from error

    def _is_due(self) -> bool:
        """Whether the world should be saved after this turn, so that bringing it back takes little."""
        capabilities = self.spec.capabilities
        often = len(self._played) + 1 >= CHECKPOINT_TURNS or self._seconds >= CHECKPOINT_SECONDS
        return capabilities.snapshot and (often or not capabilities.replayable)

    def _account(self, report: Mapping[str, JSON]) -> None:
        """Take over the effects that a worker made or used up."""
        self.effects += effects_of(report["effects"])
        if self._fed is not None:
            del self._fed[: len(self._fed) - int(report["left"])]

    def _undo(self, code: str) -> Outcome:
        """Bring the world back to where it was, and return the outcome of the undone turn."""
        ends = self._undone + 1 >= MOST_UNDONE or not self._brought_back(self.turn + 1)
        declared = self.spec.capabilities
        memory = limits.MEMORY_MB if declared.memory_mb is None else declared.memory_mb
        why = _WORDS[code].format(
            seconds=self._limit_seconds(), memory=memory, cpu=declared.cpu_seconds or 0.0, size=MAX_FRAME // 2**20
        )
        said = f"This turn was undone: {why}." + (" The episode ends here." if ends else "")
        return self._undone_by(Effect(STEP_UNDONE, {"error": code, "said": said, "ends": ends}))

    def _undone_again(self, effect: Effect) -> Outcome:
        """Return the outcome of a turn whose record says that it was undone.

        Raises:
            ContractError: The effect is none of this module's.
        """
        value = effect.value
        fields = {"error": str, "said": str, "ends": bool}
        if not isinstance(value, dict) or {key: type(item) for key, item in value.items()} != fields:
            raise ContractError(f"effect {STEP_UNDONE!r} has a value of another form")
        if not value["ends"]:
            self._report = self._world("skip", turn=self.turn + 1)
        return self._undone_by(effect)

    def _undone_by(self, effect: Effect) -> Outcome:
        self.effects.append(effect)
        self._undone += 1
        self._lost = ends = effect.value["ends"]
        said = (TextBlock(effect.value["said"]),)
        return Outcome(said, valid=False, error=effect.value["error"], ended=ends, ending="aborted")

    # ---- the worker and its world ----------------------------------------------------------------------------------

    def _limit_seconds(self) -> float:
        return self.spec.capabilities.step_seconds or STEP_SECONDS

    def _ask(self, call: str, **arguments: JSON) -> JSON:
        """Ask a worker, whatever world it has.

        Raises:
            ContractError: It failed.
        """
        if self._worker is None or not self._worker.alive:
            self._worker = pool.worker(self.spec, self.options)
        try:
            return self._worker.ask(call, CALL_SECONDS, **arguments)
        except WorkerFailure as failure:
            raise ContractError(f"{self.spec.id} failed", why=str(failure), fix="mend the environment") from failure

    def _world(self, call: str, **arguments: JSON) -> JSON:
        """Ask the worker that has the world of this episode.

        Raises:
            ContractError: It failed, or the world is lost.
        """
        try:
            self._present()
        except WorkerFailure as failure:
            raise ContractError(f"{self.spec.id} has lost its world", why=failure.why) from failure
        return self._ask(call, **arguments)

    def _present(self) -> Worker:
        """Return the worker that has the world, a new one where the last has gone.

        Raises:
            WorkerFailure: The world cannot be brought back.
        """
        if (self._worker is None or not self._worker.alive) and not self._brought_back(self.turn):
            raise WorkerFailure("step_crashed", "its world cannot be brought back")
        if self._worker is None:
            raise WorkerFailure("step_crashed", "it was closed")
        return self._worker

    def _brought_back(self, turn: int) -> bool:
        """Bring a new worker to the world as it was, at the count of a turn; return whether that could be done."""
        origin, capabilities = self._origin, self.spec.capabilities
        if origin is None or (not capabilities.replayable and (origin.saved is None or self._played)):
            return False
        try:
            self._worker = worker = pool.worker(self.spec, self.options)
            if self.current is None:  # closed by another thread meanwhile
                self.close()
                return False
            self._rebuild(worker, origin)
            report = worker.ask("skip", CALL_SECONDS, turn=turn)
        except (WorkerFailure, AgentEnvsError):
            return False
        if report["key"] != self._report["key"]:
            worker.kill()
            return False
        self._report = report
        return True

    def _rebuild(self, worker: Worker, origin: _Origin) -> None:
        if origin.saved is None:
            worker.ask("begin", CALL_SECONDS, **self._address(), effects=origin.effects)
        else:
            worker.ask("load", CALL_SECONDS, **self._address(), turn=origin.turn, saved=origin.saved)
        for action, turn, effects in self._played:
            worker.ask("play", self._limit_seconds(), action=action, turn=turn, effects=effects, save=False)

    def _settled(self, origin: _Origin, report: dict[str, JSON]) -> None:
        self._origin, self._played, self._seconds = origin, [], 0.0
        self._report, self._words, self._traced = report, str(report["instruction"]), None

    def _checkpoint(self, saved: JSON, turn: int | None = None) -> None:
        self._origin = _Origin(self.turn if turn is None else turn, [], saved)
        self._played, self._seconds = [], 0.0

    def _address(self) -> dict[str, JSON]:
        if self.ref is None:
            raise ContractError(f"{self.spec.id} has no scenario yet")
        return self.ref.to_json()


def _lost(reward: float) -> Verdict:
    """Return the verdict on a world that is gone; its one fact is enough to give it again."""
    why = ("the environment failed and its world is lost",)
    return Verdict(float(reward), False, reasons=why, facts={_LOST: float(reward)})


def _outcome(form: dict[str, JSON]) -> Outcome:
    return Outcome(**{**form, "blocks": tuple(block_from_json(block) for block in form["blocks"])})


def _checked(report: dict[str, JSON]) -> dict[str, JSON]:
    """Return a report of the form the host relies on.

    Raises:
        TypeError: It has another one.
    """
    wanted = {"effects": list, "left": int, "key": int | str, "budgets": dict}
    if wrong := [name for name, form in wanted.items() if not isinstance(report[name], form)]:
        raise TypeError(wrong[0])
    effects_of(report["effects"])
    return report


def _parts(form: Mapping[str, JSON]) -> TraceParts:
    observed, used, written = (tuple(Fact(*fact) for fact in form[name]) for name in ("observed", "used", "written"))
    spelled = None if form["canonical"] is None else parse_action(form["canonical"])
    return TraceParts(observed, used, written, tuple(form["milestones"]), spelled)
