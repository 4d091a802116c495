"""What a turn did to the world, for trainers and auditors; never for the player.

A trace is computed only when asked for: the environment keeps the little it needs and hands over a
:class:`StepTrace` on :attr:`Environment.last_trace`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from agentenvs.core.canon import JSON


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is so in the world."""

    entity: str
    relation: str
    value: str
    first_seen: int | None = None
    """The turn at which the player first observed it; 0 is the first observation, None is never."""


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One turn, seen from inside."""

    turn: int
    state_before: str
    """``state_key`` before the turn: the world without turn, budget and history, so that equal states are equal."""
    state_after: str
    action: JSON
    """The canonical action, or what was said where it was invalid."""
    valid: bool
    error: str | None
    """A stable code of why an action was invalid."""
    actor: str
    observed: tuple[Fact, ...] = ()
    used: tuple[Fact, ...] = ()
    written: tuple[Fact, ...] = ()
    milestones: tuple[str, ...] = ()
    potential: float | None = None
    """Φ after the turn, where the environment has a potential."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form; facts as ``[entity, relation, value, first_seen]``."""
        form = asdict(self)
        for name in ("observed", "used", "written"):
            form[name] = [list(fact.values()) for fact in form[name]]
        form["milestones"] = list(self.milestones)
        return form
