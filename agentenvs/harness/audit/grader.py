"""The score under test: do recorded outcomes and relations notice when it is changed?

The battery is what was judged while the hacks, anchors and solutions of this audit were played, and the same outcomes
damaged and mixed: every fact left out, of another type, one more or less, in another order; every ending; the facts of
one task in another. A mutant of the score is noticed where it judges one of them differently, or fails to. Mutants that
nobody can notice because they change no verdict are listed by the environment, each with the proof; all others count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentenvs.core import registry
from agentenvs.core.canon import JSON, canonical
from agentenvs.core.verdict import ENDINGS, Ending, Verdict
from agentenvs.harness.audit.mutating import Mutant, Sources, scope_of
from agentenvs.harness.audit.rows import Row, opened, skipped
from agentenvs.harness.audit.theatre import Judged, Theatre
from agentenvs.harness.check.findings import raised
from agentenvs.harness.check.local import Local
from agentenvs_scoring.audits import Facts, Relation
from agentenvs_scoring.probes import SLACK

WANTED = 0.95
"""Share of the mutants that must be noticed."""

_MUTANTS = "changes of the score are noticed by recorded outcomes and relations"
_LOST = "nobody knows whether a change of the score would be noticed"


@dataclass(frozen=True, slots=True)
class Item:
    """One outcome of the battery."""

    scenario: Any
    facts: Facts
    ending: Ending
    wanted: JSON
    """The verdict, as JSON."""


@dataclass(slots=True)
class Tally:
    """What came of the mutants."""

    noticed: int = 0
    by_promises: int = 0
    """Of these, by what is promised alone: solutions win, hacks that do nothing earn nothing, relations hold."""
    survivors: list[Mutant] = field(default_factory=list)
    equivalent: list[Mutant] = field(default_factory=list)

    @property
    def counted(self) -> int:
        """Mutants that could have been noticed."""
        return self.noticed + len(self.survivors)


def rows(
    theatre: Theatre, *, mutants: int, outcomes: int, progress: Callable[[], None] = lambda: None
) -> Iterator[Row]:
    """Yield the rows on the score.

    Args:
        theatre: Where everything else was played before.
        mutants: Most mutants that are tried; drawn where there are more.
        outcomes: Most outcomes of the battery.
        progress: Called now and then.
    """
    if not isinstance(theatre.subject, Local):
        yield skipped("grader.mutants", _MUTANTS, "its source is not to be seen from here", _LOST)
        return
    cls = _class_of(theatre)
    for relation in theatre.said.relations:
        yield _related(theatre, cls, relation)
    yield _mutated(theatre, cls, mutants, outcomes, progress)


def count(theatre: Theatre) -> int:
    """Return the number of rows."""
    return 1 + len(theatre.said.relations) if isinstance(theatre.subject, Local) else 1


def _class_of(theatre: Theatre) -> type[Any]:
    subject = theatre.subject
    if isinstance(subject, Local) and subject.cls is not None:
        return subject.cls
    return registry.load(theatre.spec.entry_point)  # type: ignore[no-any-return]


# ---- relations -----------------------------------------------------------------------------------------------------


def _related(theatre: Theatre, cls: type[Any], relation: Relation) -> Row:
    """Hold other outcomes of a task against the one that was judged."""
    name = f"relation.{relation.name}"
    tried = 0
    for judged in theatre.judged.values():
        for before, after, facts in _pairs(cls, judged, relation):
            tried += 1
            if _broken(relation, before, after):
                said = f"{before.reward:g} becomes {after.reward:g} for {_short(facts)} in {judged.scenario.name}"
                row = Row(name, relation.description, "breach", said, before.reward, after.reward, episodes=tried)
                return opened(row, theatre.said.open[name]) if name in theatre.said.open else row
    if not tried:
        return skipped(name, relation.description, "no outcome of this audit is of the kind")
    return Row(name, relation.description, "held", f"{tried} pairs of outcomes", episodes=tried)


def _pairs(cls: type[Any], judged: Judged, relation: Relation) -> Iterator[tuple[Verdict, Verdict, Facts]]:
    before = cls.rejudge(judged.scenario, judged.facts, judged.ending)
    for facts in relation.change(judged.scenario, judged.facts):
        yield before, cls.rejudge(judged.scenario, facts, judged.ending), facts


def _broken(relation: Relation, before: Verdict, after: Verdict) -> bool:
    if relation.holds == "same":
        return abs(after.reward - before.reward) > SLACK or after.success != before.success
    return after.reward > before.reward + SLACK or (after.success and not before.success)


# ---- mutants -------------------------------------------------------------------------------------------------------


def _mutated(theatre: Theatre, cls: type[Any], most: int, outcomes: int, progress: Callable[[], None]) -> Row:
    name = "grader.mutants"
    entry, modules = scope_of(cls, theatre.said.graders)
    mutants = list(Sources(entry, modules, cls.__module__).mutants())
    items = battery(theatre, cls, outcomes)
    if not mutants or not items:
        why = (
            "no source of a score is here: it is what another side pays"
            if not mutants
            else "no outcome can be judged again"
        )
        return skipped(name, _MUTANTS, why, _LOST)
    whole = len(mutants)
    if whole > most:
        theatre.stream("mutants").shuffle(mutants)
        mutants = mutants[:most]
    tally = tried(theatre, cls, mutants, items, progress)
    share = tally.noticed / tally.counted if tally.counted else 1.0
    said = (
        f"{tally.noticed} of {tally.counted} mutants are noticed by {len(items)} outcomes ({share:.1%}), "
        f"{tally.by_promises} by what is promised alone; {len(tally.equivalent)} more change no verdict"
    )
    said += f"; {len(mutants)} drawn of {whole}" if whole > len(mutants) else ""
    said += f"; not noticed: {'; '.join(mutant.label for mutant in tally.survivors[:5])}" if tally.survivors else ""
    row = Row(name, _MUTANTS, "held" if share >= WANTED else "breach", said, WANTED, share, episodes=len(mutants))
    return opened(row, theatre.said.open[name]) if name in theatre.said.open else row


def tried(
    theatre: Theatre,
    cls: type[Any],
    mutants: Sequence[Mutant],
    items: Sequence[Item],
    progress: Callable[[], None] = lambda: None,
) -> Tally:
    """Put each mutant in place of the score and see whether the battery notices."""
    tally, promises = Tally(), _promises(theatre)
    order = list(items)
    for mutant in mutants:
        progress()
        by = _noticed(cls, mutant, order)
        if by is not None:
            tally.noticed += 1
            tally.by_promises += _breaks(cls, mutant, promises, theatre.said.relations)
            order.insert(0, order.pop(by))  # who notices one notices others
        elif mutant.label in theatre.said.equivalent:
            tally.equivalent.append(mutant)
        else:
            tally.survivors.append(mutant)
    return tally


def _noticed(cls: type[Any], mutant: Mutant, items: Sequence[Item]) -> int | None:
    """Return which outcome a mutant judges differently, or fails on; None where there is none."""
    try:
        with mutant.planted():
            for number, item in enumerate(items):
                if _judged(cls, item.scenario, item.facts, item.ending) != item.wanted:
                    return number
    except SyntaxError:  # it is no program
        return 0
    return None


def _promises(theatre: Theatre) -> list[Judged]:
    """Return outcomes of which the worth is promised: solutions, and hacks that must earn nothing."""
    return [judged for judged in theatre.judged.values() if judged.who == "oracle" or judged.who.startswith("-")][:60]


def _breaks(cls: type[Any], mutant: Mutant, promises: Sequence[Judged], relations: Sequence[Relation]) -> bool:
    """Whether a mutant breaks what is promised, without any verdict to compare with."""
    try:
        with mutant.planted():
            for judged in promises:
                verdict = cls.rejudge(judged.scenario, judged.facts, judged.ending)
                wins = judged.who == "oracle" and judged.ending == "terminated" and judged.verdict.success
                if (wins and not verdict.success) or (not wins and judged.who != "oracle" and verdict.reward > SLACK):
                    return True
            return any(
                _broken(relation, before, after)
                for relation in relations
                for judged in promises[:10]
                for before, after, _ in _pairs(cls, judged, relation)
            )
    except Exception:  # noqa: BLE001 - boundary: a mutant may fail in any way, which is seen
        return True


def _judged(cls: type[Any], scenario: Any, facts: Facts, ending: Ending) -> JSON:
    """Return the verdict on an outcome as JSON; the name of the error where there is none."""
    try:
        verdict = cls.rejudge(scenario, facts, ending)
        form = verdict.to_json()
        return {name: form[name] for name in form if name != "facts"} | {"facts": canonical(dict(verdict.facts))}
    except Exception as error:  # noqa: BLE001 - boundary: a score, and a mutant of one, may fail in any way
        return {"raised": raised(error)}


# ---- the battery ---------------------------------------------------------------------------------------------------


def battery(theatre: Theatre, cls: type[Any], most: int) -> list[Item]:
    """Return outcomes with the verdicts that the score gives them now: recorded ones first, then damaged and mixed."""
    judged = list(theatre.judged.values())
    judged.sort(key=lambda item: (item.who != "oracle", -item.verdict.reward))
    found: dict[str, Item] = {}
    for scenario, facts, ending in _outcomes(theatre, judged, most):
        key = canonical([scenario.digest, ending, dict(facts)])
        if key in found:
            continue
        wanted = _judged(cls, scenario, facts, ending)
        if "raised" not in wanted:
            found[key] = Item(scenario, facts, ending, wanted)
        if len(found) >= most:
            break
    return list(found.values())


def _outcomes(theatre: Theatre, judged: Sequence[Judged], most: int) -> Iterator[tuple[Any, Facts, Ending]]:
    for item in judged[: most // 5]:
        yield item.scenario, item.facts, item.ending
    picked = [*judged[: most // 100], *judged[most // 100 :: max(len(judged) * 50 // most, 1)]]
    scenarios = list({item.scenario.digest: item.scenario for item in judged}.values())
    sources = [_damages(theatre, item, scenarios, number) for number, item in enumerate(picked)]
    for scenario in scenarios[:_TASKS]:
        made = _more(theatre, scenario)
        sources += [iter(made[part::_SHARE]) for part in range(_SHARE)]
    while sources:  # one of each in turn, so that a short battery has something of all
        for source in list(sources):
            for outcome in source:
                yield outcome
                break
            else:
                sources.remove(source)


_SHARE = 8
"""Outcomes that the environment names for a task, for each that is a damaged one."""


_TASKS = 24
"""Tasks for which the environment's own outcomes are made."""


def _more(theatre: Theatre, scenario: Any) -> list[tuple[Any, Facts, Ending]]:
    """Return the outcomes that the environment itself names for a task, in a mixed order."""
    make = theatre.said.outcomes
    facts = next(item.facts for item in theatre.judged.values() if item.scenario.digest == scenario.digest)
    made = list(make(scenario, facts)) if make is not None else []
    theatre.stream(f"outcomes/{scenario.digest}").shuffle(made)
    return [(other, changed, "terminated") for other, changed in made]


def _damages(
    theatre: Theatre, item: Judged, scenarios: Sequence[Any], number: int
) -> Iterator[tuple[Any, Facts, Ending]]:
    """Yield an outcome at every ending, then in other tasks and with other facts in a mixed order."""
    yield from ((item.scenario, item.facts, ending) for ending in ENDINGS)
    made: list[tuple[Any, Facts, Ending]] = [(item.scenario, facts, item.ending) for facts in damaged_facts(item.facts)]
    made += [(other, item.facts, item.ending) for other in scenarios[:6]]
    theatre.stream(f"battery/{number}").shuffle(made)
    yield from made


def damaged_facts(facts: Facts) -> Iterator[dict[str, JSON]]:
    """Yield facts with one thing other than it was: shrunk, grown, of another type, in another order."""
    for name, value in facts.items():
        yield {key: item for key, item in facts.items() if key != name}
        for other in _other(value, 3):
            yield {**facts, name: other}


_NONE: tuple[JSON, ...] = (None, True, 0, 1, -1, 2.5, "", "x", [], {}, [None], [["a", "b", "c"]], {"a": 1})


def _other(value: JSON, depth: int) -> Iterator[JSON]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, 0, 2 * value + 1)
    elif isinstance(value, float):
        yield from (value + 0.5, value / 2, -value)
    elif isinstance(value, str):
        yield from (f"{value}x", value[:-1], value.upper(), f" {value} ", "", f"{value} {value}")
    elif isinstance(value, list):
        yield from _other_list(value, depth)
    elif isinstance(value, Mapping) and depth:
        yield from ({name: item for name, item in value.items() if name != left} for left in value)
        yield from ({**value, name: other} for name, item in value.items() for other in _other(item, depth - 1))
        yield {**value, "another": "x"}
    yield from (other for other in _NONE if depth == 3 and type(other) is not type(value))


def _other_list(value: list[JSON], depth: int) -> Iterator[JSON]:
    yield from ([*value[:at], *value[at + 1 :]] for at in range(min(len(value), 12)))
    yield from ([*value, *value], value[::-1], [*value[1:], *value[:1]], [], tuple(value), value[:1], value[-1:])
    yield from ([*value, item] for item in (*value[:2], "x", None, ["a", "b", "c"], 7))
    for at in range(min(len(value), 12)) if depth else ():
        yield from ([*value[:at], other, *value[at + 1 :]] for other in _other(value[at], depth - 1))


def _short(facts: Facts) -> str:
    text = canonical(dict(facts))
    return text if len(text) <= 100 else f"{text[:100]}…"
