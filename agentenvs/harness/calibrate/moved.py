"""A measurement held against a card: equal, moved, or not there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentenvs.core.spec import EnvSpec
from agentenvs.harness.calibrate.measuring import Measured
from agentenvs.harness.calibrate.results import band, outcomes
from agentenvs_scoring.cards import Band, Card


@dataclass(frozen=True, slots=True)
class Moved:
    """A row that is not what the card says."""

    row: str
    what: str


def moved(card: Card, found: Sequence[Measured], spec: EnvSpec) -> list[Moved]:
    """Return the rows of a measurement that are not what the card says.

    A row is held against the digest of its outcomes, or of its first episodes where only those were played. Where the
    environment does not promise to be deterministic, it need only lie in its band. A row that the card does not have,
    and a release that is not the card's, are told too.
    """
    known = {_place(one): one for one in card.bands}
    faults = []
    if card.release != spec.release:
        faults.append(Moved("the card", f"is of release {card.release}, the environment is of {spec.release}"))
    for measured in found:
        now = band(measured, spec)
        before = known.get(_place(now))
        if before is None:
            faults.append(Moved(measured.row.name, "is not on the card"))
        elif what := _against(before, now, measured, exact=spec.capabilities.deterministic):
            faults.append(Moved(measured.row.name, what))
    return faults


def _place(one: Band) -> tuple[object, ...]:
    return one.player, one.split, one.limit, repr(sorted(one.options.items()))


def _against(before: Band, now: Band, measured: Measured, *, exact: bool) -> str:
    if not exact:
        return "; ".join(before.misses(now.success, now.steps))
    count = len(measured.episodes)
    if count == before.episodes:
        same = now.outcomes == before.outcomes
    elif count >= before.quick:
        same = outcomes(measured.episodes[: before.quick]) == before.quick_outcomes
    else:
        return f"{count} episodes are too few to tell: the card's quick digest is of {before.quick}"
    if same:
        return ""
    misses = before.misses(now.success, now.steps) if count == before.episodes else []
    was, is_now = (f"{one.won} of {one.episodes} won in {one.steps:g} steps" for one in (before, now))
    return f"{was}, now {is_now}: {'; '.join(misses) or 'outcomes have moved'}"
