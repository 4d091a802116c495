"""Environments that may hang, crash or never return: each lives in a worker process that can be killed.

:class:`Hosted` is an :class:`~agentenvs.core.environment.Environment` whose author's hooks run in the worker. A step
that overruns its limit, takes the process down or raises is *undone*: the worker is killed, a new one is brought to the
world as it was before (a checkpoint, and the actions since, effects fed back), and the turn becomes an invalid one that
says so. That it was undone is an effect, so a replay gives the same bytes without running the step again. Where the
world cannot be brought back, or after :data:`MOST_UNDONE` undone steps in a row, the episode ends as ``aborted``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentenvs.core.actions import Action, parse_action, to_json
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, ContractError
from agentenvs.core.observation import Block, TextBlock, block_from_json
from agentenvs.core.process import Worker, WorkerFailure
from agentenvs.core.record import effects_of, effects_to_json
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.trace import Fact
from agentenvs.core.turn import Effect, Outcome, TraceParts
from agentenvs.core.verdict import Ending, Verdict

MOST_UNDONE = 3
"""Undone steps in a row that end an episode."""

CHECKPOINT_EVERY = 64
"""Actions between checkpoints of an environment that has snapshots."""

SLOW_SECONDS = 60.0
"""Wall-clock limit of everything but a step: beginning, saving, loading, judging."""

STEP_UNDONE = "step_undone"
"""Kind of the effect that says a step was undone."""

_WORDS = {
    "step_timeout": "it took longer than {seconds} s",
    "step_crashed": "the environment crashed",
    "step_raised": "the environment failed",
}


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


class _Start(NamedTuple):
    """Where a world can be built from: the beginning of an episode with its effects, or a saved world."""

    effects: list[JSON]
    saved: JSON | None


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
        self._worker: Worker | None = self._start_worker()
        self._report: dict[str, JSON] = {}
        self._start = _Start([], None)
        self._played: list[_Played] = []
        self._undone = 0
        self._lost = False

    # ---- hooks -----------------------------------------------------------------------------------------------------

    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits by name."""
        return {form["name"]: SplitSpec(**form) for form in self._ask("splits")}

    def scenario(self, split: str, index: int) -> HostedScenario:
        """Return a scenario as data."""
        return HostedScenario(**self._ask("scenario", split=split, index=index))

    def labels(self) -> Mapping[str, JSON]:
        """Return what a report sorts the episode by."""
        return self._report.get("labels", {})  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the worker; may be called twice."""
        super().close()
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def __del__(self) -> None:
        """End a worker that nobody closed."""
        if getattr(self, "_worker", None) is not None:
            self.close()

    def _begin(self, scenario: HostedScenario) -> tuple[Block, ...]:
        fed = None if self._fed is None else effects_to_json(self._fed)
        self._undone, self._lost, self._played = 0, False, []
        report = self._ask("begin", **self._address(), effects=fed)
        self._start = _Start(report["effects"], None)
        self._take(report)
        return tuple(block_from_json(block) for block in report["blocks"])

    def _act(self, action: Action) -> Outcome:
        if self._fed and self._fed[0].kind == STEP_UNDONE:
            return self._undo(self._fed.pop(0))
        form = to_json(action)
        fed = None if self._fed is None else effects_to_json(self._fed)
        try:
            report = self._do(form, self.turn, fed)
        except WorkerFailure as failure:
            self._worker = None
            ends = self._undone + 1 >= MOST_UNDONE or not self._rebuild()
            return self._undo(Effect(STEP_UNDONE, {"code": failure.code, "ends": ends}))
        self._undone = 0
        self._played.append(_Played(form, self.turn, report["effects"]))
        self._take(report)
        self._checkpoint()
        return _outcome(report["outcome"])

    def _judge(self, ending: Ending) -> Verdict:
        if self._lost:
            return Verdict(0.0, False, reasons=("the environment failed and could not be brought back",))
        return Verdict.from_json(self._ask("judge", ending=ending, turn=self.turn))

    def rejudge(self, scenario: Any, facts: Mapping[str, JSON], ending: Ending) -> Verdict:  # type: ignore[override]
        """Compute a verdict again, in the worker."""
        if ending == "aborted" and not facts:
            return Verdict(0.0, False, reasons=("the environment failed and could not be brought back",))
        return Verdict.from_json(self._ask("rejudge", **self._address(), facts=dict(facts), ending=ending))

    def _key(self) -> int | str:
        return self._report["key"]  # type: ignore[no-any-return]

    def _save(self) -> JSON:
        return self._ask("save")

    def _load(self, scenario: Any, saved: JSON) -> None:
        self._start, self._played = _Start([], saved), []
        self._undone, self._lost = 0, False
        self._take(self._ask("load", **self._address(), saved=saved))

    def _own(self) -> None:
        self._worker = None
        self._played = list(self._played)
        if not self._rebuild():
            raise ContractError(f"{self.spec.id} could not be forked", why="its world cannot be brought back")

    def _admissible(self) -> tuple[str, ...] | None:
        found = self._report["admissible"]
        return None if found is None else tuple(found)

    def _budgets(self) -> Mapping[str, int]:
        return self._report["budgets"]  # type: ignore[no-any-return]

    def _potential(self) -> float:
        return float(self._report["potential"])

    def _instruction(self) -> str:
        return str(self._report["instruction"])

    def _trace(self) -> TraceParts:
        if self._lost or self._undone:
            return TraceParts()
        form = self._ask("trace", turn=self.turn)
        canonical = form["canonical"]
        observed, used, written = (
            tuple(Fact(*fact) for fact in form[name]) for name in ("observed", "used", "written")
        )
        spelled = None if canonical is None else parse_action(canonical)
        return TraceParts(observed, used, written, tuple(form["milestones"]), spelled)

    # ---- the worker ------------------------------------------------------------------------------------------------

    def _start_worker(self) -> Worker:
        return Worker(self.spec.entry_point, self.options)

    def _ask(self, call: str, **arguments: JSON) -> JSON:
        if self._worker is None:
            self._worker = self._start_worker()
        try:
            return self._worker.ask(call, SLOW_SECONDS, **arguments)
        except WorkerFailure as failure:
            self._worker = None
            raise ContractError(f"{self.spec.id} failed", why=str(failure), fix="mend the environment") from failure

    def _do(self, form: JSON, turn: int, fed: list[JSON] | None) -> dict[str, JSON]:
        """Do an action in the worker, within the limit of a step.

        Raises:
            WorkerFailure: It did not come to an end; the worker is gone.
        """
        if self._worker is None:
            raise WorkerFailure("step_crashed", "there is no worker")
        seconds = self.spec.capabilities.step_seconds
        return self._worker.ask("act", seconds, action=form, turn=turn, effects=fed)  # type: ignore[no-any-return]

    def _take(self, report: dict[str, JSON]) -> None:
        """Keep what a worker reports of its world, and account for the effects it made or used up."""
        self._report = report
        self.effects += effects_of(report["effects"])
        if self._fed is not None:
            del self._fed[: len(self._fed) - (report["left"] or 0)]

    def _undo(self, effect: Effect) -> Outcome:
        """Return the outcome of an undone step, now or at replay."""
        self.effects.append(effect)
        self._undone += 1
        code, ends = effect.value["code"], effect.value["ends"]
        self._lost = ends
        why = _WORDS[code].format(seconds=self.spec.capabilities.step_seconds)
        said = f"This step was undone: {why}." + (" The episode ends here." if ends else "")
        return Outcome((TextBlock(said),), valid=False, error=code, ended=ends, ending="aborted")

    def _checkpoint(self) -> None:
        if self.spec.capabilities.snapshot and len(self._played) >= CHECKPOINT_EVERY:
            self._start, self._played = _Start([], self._ask("save")), []

    def _rebuild(self) -> bool:
        """Bring a new worker to the world before the step; return whether that could be done."""
        if not (self.spec.capabilities.replayable or self._start.saved is not None):
            return False
        try:
            self._worker = self._start_worker()
            if self._start.saved is not None:
                report = self._ask("load", **self._address(), saved=self._start.saved)
            else:
                report = self._ask("begin", **self._address(), effects=self._start.effects)
            for played in self._played:
                report = self._do(played.action, played.turn, played.effects)
        except (WorkerFailure, AgentEnvsError):
            return False
        self._report = report
        return True

    def _address(self) -> dict[str, JSON]:
        if self.ref is None:
            raise ContractError(f"{self.spec.id} has no scenario yet")
        return {"split": self.ref.split, "index": self.ref.index}


def _outcome(form: dict[str, JSON]) -> Outcome:
    return Outcome(**{**form, "blocks": tuple(block_from_json(block) for block in form["blocks"])})
