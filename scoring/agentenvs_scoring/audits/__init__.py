"""What an environment says of its own audit, as data: hacks, luck, relations, mutants that change nothing.

A world of the suite says it in the module of its slug here; a world of one's own in ``AUDIT``, in its module or in
``probes`` beside it. What it does not say is taken from the spec and from :class:`Audit`'s defaults.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from agentenvs.core.canon import JSON
from agentenvs.core.errors import ContractError
from agentenvs_scoring.probes import Probe, probes_of
from agentenvs_scoring.probes.generic.known import LUCK

Facts: TypeAlias = Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Relation:
    """How two outcomes of one task must stand to each other (a metamorphic relation of the score)."""

    name: str
    description: str
    change: Callable[[Any, Facts], Iterable[Facts]]
    """Makes other outcomes from a scenario and the facts of one."""
    holds: Literal["same", "no more"] = "no more"
    """Whether they earn the same, or no more."""


def _as_said(action: JSON) -> JSON:
    return action


@dataclass(frozen=True, slots=True)
class Audit:
    """What an environment says of its audit."""

    probes: tuple[Probe, ...] = ()
    """Hacks of its own."""
    luck: float = LUCK
    """Share of the reward range that a guess may earn in the mean of many tasks."""
    ordered: bool = False
    """The order of a solution's steps matters: played backwards, it must not win."""
    relations: tuple[Relation, ...] = ()
    open: Mapping[str, str] = field(default_factory=dict)
    """Rows that may fail, and why that is known and kept."""
    outcomes: Callable[[Any, Facts], Iterable[tuple[Any, Facts]]] | None = None
    """Makes more outcomes from a scenario and the facts of one, for the audit of the score: such as plays seldom
    reach."""
    meaning: Callable[[JSON], JSON] = _as_said
    """What an action says, where the grammar takes several spellings for the same: these are no hacks."""
    graders: tuple[str, ...] = ()
    """Modules of the score beyond those that :func:`rejudge` reaches in its own package."""
    equivalent: Mapping[str, str] = field(default_factory=dict)
    """Mutants of the score that change no verdict, by label, each with the proof in a sentence."""


def audit_of(slug: str, cls: type[Any] | None) -> Audit:
    """Return what an environment says of its audit.

    Args:
        slug: Of the environment.
        cls: Its class, where it is at hand.

    Raises:
        ContractError: What it says is nothing of the kind.
    """
    own = _module(f"{__name__}.{slug}")
    said: Audit = own.AUDIT if own is not None else Audit()
    if cls is not None and not cls.__module__.startswith("agentenvs.envs."):
        said = _told(cls) or said
    return replace(said, probes=(*probes_of(slug), *said.probes))


def _told(cls: type[Any]) -> Audit | None:
    """Return what a class's module, or ``probes`` beside it, says."""
    package = cls.__module__.rpartition(".")[0]
    here = sys.modules[cls.__module__]
    beside = _module(f"{package}.probes") if package else None
    for module in (here, beside):
        if isinstance(found := getattr(module, "AUDIT", None), Audit):
            return found
        if found is not None:
            raise ContractError(f"AUDIT of {cls.__module__} is no Audit", fix="agentenvs.api has the class")
    probes = [probe for module in (here, beside) for probe in _probes(getattr(module, "PROBES", ()), cls)]
    return Audit(probes=tuple(probes)) if probes else None


def _probes(listed: Any, cls: type[Any]) -> Iterable[Probe]:
    """Read probes: a sequence of them, or players by the most they may earn in the mean."""
    if not isinstance(listed, Mapping):
        yield from (probe for probe in listed if isinstance(probe, Probe))
        return
    high = cls.spec.reward_range[1]
    for player, most in listed.items():
        words = " ".join((player.__doc__ or player.__name__).split())
        ceiling, average = (0.0, None) if most <= 0 else (high, float(most))
        yield Probe(player.__name__, words, _without(player), ceiling=ceiling, average=average)


def _without(player: Callable[[], Any]) -> Callable[[tuple[Any, ...]], Any]:
    return lambda winning: player()


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        return None


__all__ = ["Audit", "Facts", "Relation", "audit_of"]
