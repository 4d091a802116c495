"""The hacks, generic ones and the environment's own, each played on every task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice

from agentenvs.core.errors import UserError
from agentenvs.core.policy import Privileged
from agentenvs.core.portable import total
from agentenvs.core.task import TaskRef
from agentenvs.harness.audit.rows import Row, bounds, opened, skipped
from agentenvs.harness.audit.theatre import Take, Theatre, apart
from agentenvs_scoring.probes import SLACK, Probe
from agentenvs_scoring.probes.generic import HACKS, Hack

SURE = 2.5758293035489004
"""Quantile of the normal distribution for 99 %: a guess is a breach where chance explains it no better than that."""

UNSOLVED = "nobody knows whether a solution can be abused"


def rows(theatre: Theatre, own_tasks: int) -> Iterator[Row]:
    """Yield a row a hack.

    Args:
        theatre: Where they are played.
        own_tasks: On how many tasks the environment's own are played.
    """
    for hack in HACKS:
        yield generic(theatre, hack)
    for probe in theatre.said.probes:
        yield own(theatre, probe, own_tasks)


def count(theatre: Theatre) -> int:
    """Return the number of rows."""
    return len(HACKS) + len(theatre.said.probes)


def generic(theatre: Theatre, hack: Hack) -> Row:
    """Play a generic hack on every task."""
    name = f"hack.{hack.name}"
    lacking = ""

    def made(ref: TaskRef, nth: int) -> Probe | None:
        nonlocal lacking
        known = theatre.known(ref, nth, hack.name)
        lacking = hack.lacks(known) or lacking
        return None if hack.lacks(known) else hack.probe(known, theatre.said.luck)

    refs = theatre.refs
    row = _row(theatre, name, hack.description, made, [*refs, *islice(cycle(refs), max(hack.plays - len(refs), 0))])
    return row or skipped(name, hack.description, lacking, UNSOLVED)


def own(theatre: Theatre, probe: Probe, tasks: int) -> Row:
    """Play a hack of the environment's own on some tasks; on all where it may be lucky."""
    name = f"hack.{theatre.spec.slug}.{probe.name}"
    policy = probe.make(())
    if not theatre.local and isinstance(policy, Privileged):
        return skipped(name, probe.description, "it has to see the scenario, which is not on the wire")
    refs = theatre.refs if probe.average is not None else apart(theatre.refs, tasks)
    row = _row(theatre, name, probe.description, lambda ref, nth: probe, refs)
    found = row or skipped(name, probe.description, "no task could be begun")
    profile = theatre.subject.options.get("profile")
    return opened(found, f"profile {profile} keeps it for fidelity") if profile in probe.open_in else found


def _row(
    theatre: Theatre, name: str, tries: str, made: Callable[[TaskRef, int], Probe | None], refs: Sequence[TaskRef]
) -> Row | None:
    """Return what came of a hack, played on all tasks it can be played on; None where there is none."""
    takes: list[Take] = []
    probe: Probe | None = None
    for nth, ref in enumerate(refs):
        found = made(ref, nth)
        if found is None:
            continue
        probe = found
        try:
            takes.append(theatre.play(found.make(theatre.solution(ref)), ref, who=_who(found), **found.options))
        except UserError as error:
            return skipped(name, tries, f"it cannot be played: {error.what}")
    if probe is None or not takes:
        return None
    if not any(take.turns or take.raised for take in takes):
        return skipped(name, tries, "there is nothing of the kind to try")
    row = judged(name, tries, probe, takes, theatre.spec.reward_range)
    return opened(row, theatre.said.open[name]) if name in theatre.said.open else row


def _who(probe: Probe) -> str:
    """Return who plays, for the audit of the score: those that must earn nothing begin with a minus."""
    return ("-" if probe.ceiling <= 0.0 else "") + probe.name


def judged(name: str, tries: str, probe: Probe, takes: Sequence[Take], span: tuple[float, float]) -> Row:
    """Return the row of a hack from its plays."""
    low, high = span
    earned = [take.earned for take in takes]
    worst = max(takes, key=lambda take: take.earned)
    number = len(takes)
    if (slip := _slip(takes)) is not None:
        return Row(name, tries, "breach", slip, probe.ceiling, worst.earned, episodes=number)
    if worst.earned > probe.ceiling + SLACK:
        said = f"earns {worst.earned:g} on {worst.where}"
        return Row(name, tries, "breach", said, probe.ceiling, worst.earned, episodes=number)
    if probe.average is None:
        return Row(name, tries, "held", _note(takes), probe.ceiling, worst.earned, episodes=number)
    mean = total(earned) / number
    interval = bounds(earned, low, high)
    luckiest = sum(take.success for take in takes)
    said = f"{luckiest} of {number} won, mean {mean:.3g}" + _raised(takes)
    if interval is None:
        lost = "the range of rewards says nothing: nobody knows how much luck is too much"
        return Row(name, tries, "skipped", said, None, mean, None, number, lost)
    sure = bounds(earned, low, high, SURE) or interval
    verdict = "breach" if sure.low > probe.average else "held" if mean <= probe.average + SLACK else "unclear"
    return Row(name, tries, verdict, said, probe.average, mean, interval, number)  # type: ignore[arg-type]


def _slip(takes: Sequence[Take]) -> str | None:
    """Return what was learned that should not be, or went on after the end."""
    for take in takes:
        if take.leaks:
            return f"learns {take.leaks[0]} on {take.where}"
        if take.late:
            return f"{take.late[0]} on {take.where}"
    return None


def _note(takes: Sequence[Take]) -> str:
    won = sum(take.success for take in takes)
    turns = sum(take.turns for take in takes)
    return f"{won} of {len(takes)} won, {turns} turns{_raised(takes)}"


def _raised(takes: Sequence[Take]) -> str:
    failed = [take for take in takes if take.raised]
    return f"; the environment raised in {len(failed)}: {failed[0].raised}" if failed else ""
