"""What a caller may rely on wherever the world is: in this process, or behind a wire.

:class:`~agentenvs.core.environment.Environment` and the clients' remote environments have the same methods with the
same meaning; whoever only plays (a harness, Gymnasium's face) asks for a :class:`Playable`. What needs the world itself
(forks, snapshots, scenarios, records) is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from agentenvs.core.canon import JSON
from agentenvs.core.errors import SplitError
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.task import Task, TaskRef
from agentenvs.core.trace import StepTrace
from agentenvs.core.turn import StepResult
from agentenvs.core.verdict import Ending, Verdict


class Playable(Protocol):
    """An environment as its callers see it; :class:`~agentenvs.core.environment.Environment` says what each means."""

    @property
    def spec(self) -> EnvSpec:
        """What the environment says of itself."""

    @property
    def ref(self) -> TaskRef | None:
        """The scenario that is played; None before the first reset."""

    @property
    def turn(self) -> int:
        """Turns played."""

    @property
    def ending(self) -> Ending | None:
        """How the episode ended; None while it runs."""

    @property
    def verdict(self) -> Verdict | None:
        """What it was worth; None while it runs."""

    @property
    def observation(self) -> Observation:
        """The last observation."""

    @property
    def last_trace(self) -> StepTrace | None:
        """The last turn seen from inside; None before the first, and where no traces were asked for."""

    def reset(self, ref: TaskRef | None = None) -> Observation:
        """Begin an episode."""

    def step(self, action: Any) -> StepResult:
        """Play one turn."""

    async def astep(self, action: Any) -> StepResult:
        """Play one turn without blocking the event loop where that can be."""

    def finish(self, ending: Ending) -> Verdict:
        """End the episode, if it has not ended, and return its verdict."""

    def close(self) -> None:
        """Give up what it holds. May be called twice."""

    def task(self) -> Task:
        """Return what a policy is told of the episode."""

    def admissible(self) -> tuple[str, ...] | None:
        """Return the legal text actions now, or None where they cannot be told."""

    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits by name."""

    def labels(self) -> Mapping[str, JSON]:
        """Return what a report sorts the episode by. For eyes after the end only."""

    def scenario_name(self) -> str:
        """Return the readable name of the scenario; empty where it is not known. For eyes after the end only."""

    def check_ref(self, ref: TaskRef) -> None:
        """Refuse an address that names no scenario."""

    def declared_budgets(self) -> dict[str, int]:
        """Return every budget with what an episode starts with."""

    def public_options(self) -> dict[str, JSON]:
        """Return the options that belong to the episode."""


def check_ref(spec: EnvSpec, splits: Mapping[str, SplitSpec], ref: TaskRef) -> None:
    """Refuse an address that names no scenario.

    Raises:
        SplitError: No such split, or no such index in it.
    """
    split = splits.get(ref.split)
    if split is None:
        raise SplitError(f"{spec.id} has no split {ref.split!r}", fix=f"its splits: {', '.join(splits)}")
    if type(ref.index) is not int:
        raise SplitError(f"{ref.index!r} is no index", fix="indices and seeds are whole numbers")
    if split.size is not None and not 0 <= ref.index < split.size:
        raise SplitError(
            f"split {ref.split!r} has no index {ref.index}", why=f"it holds {split.size} scenarios, counted from 0"
        )


def declared_budgets(spec: EnvSpec, options: Mapping[str, Any]) -> dict[str, int]:
    """Return every budget with what an episode under these options starts with; ``limit`` sets that of steps."""
    budgets = dict(spec.budgets)
    limit: int | None = options.get("limit", spec.budgets.get("steps"))
    if limit:
        budgets["steps"] = limit
    elif "limit" in options:
        budgets.pop("steps", None)
    return budgets
