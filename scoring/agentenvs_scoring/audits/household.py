"""The household's audit: evidence is a set, less of it earns no more, and other objects count nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from agentenvs.core.canon import JSON
from agentenvs_scenarios.household.model import TASK_TYPES, Scenario, Thing
from agentenvs_scoring.audits import Audit, Facts, Relation

_LOOK: Final = "look_at_obj_in_light"
_STATES: Final = ("clean", "hot", "cool")


def _evidence(facts: Facts) -> list[Any]:
    listed = facts.get("evidence")
    return list(listed) if isinstance(listed, list | tuple) else []


def _in_another_order(_: Scenario, facts: Facts) -> Iterator[Facts]:
    listed = _evidence(facts)
    yield {**facts, "evidence": listed[::-1]}
    yield {**facts, "evidence": [*listed, *listed]}


def _less(_: Scenario, facts: Facts) -> Iterator[Facts]:
    listed = _evidence(facts)
    yield from ({**facts, "evidence": [*listed[:at], *listed[at + 1 :]]} for at in range(min(len(listed), 12)))


def _of_other_things(scenario: Scenario, facts: Facts) -> Iterator[Facts]:
    """Yield the facts with every other object treated, held and everywhere."""
    listed = _evidence(facts)
    others = [thing for thing in scenario.things if thing.cls not in (scenario.goal.thing, scenario.goal.target)]
    for thing in islice(others, 6):
        yield {**facts, "evidence": [*listed, *_all_of(scenario, thing)]}


def _all_of(scenario: Scenario, thing: Thing) -> list[list[str]]:
    placed = [[thing.name, "in", item.name] for item in scenario.receptacles]
    return [*placed, *([thing.name, "is", state] for state in (*_STATES, "toggled")), ["player", "holds", thing.name]]


def outcomes(scenario: Scenario, facts: Facts) -> Iterator[tuple[Scenario, Facts]]:
    """Yield ends that a play seldom comes to: some objects here, others treated, held by nobody, under no lamp."""
    every = list(_asked(scenario))
    placed, (asked, lit) = list(_placed(scenario)), _under_lamps(scenario)
    for number in range(max(len(placed), len(lit))):
        if number < len(placed):
            yield from ((other, {**facts, "evidence": placed[number]}) for other in every)
        if number < len(lit):
            yield asked, {**facts, "evidence": lit[number]}
        for turns in (0, 1, -1, True, 2.5) if number < 8 else (1,):
            yield scenario, {**facts, "evidence": placed[number % len(placed)], "turns": turns}
            yield asked, {**facts, "evidence": lit[number % len(lit)], "turns": turns}


def _placed(scenario: Scenario) -> Iterator[list[Any]]:
    """Yield ends with objects in receptacles, treated or not, alone or two; and some that are no evidence."""
    goal = scenario.goal
    able = [thing for thing in scenario.things if thing.cls == goal.thing][:3]
    targets = [item.name for item in scenario.receptacles if item.cls == goal.target][:2]
    elsewhere = [item.name for item in scenario.receptacles if item.cls != goal.target][:2]
    for thing in [*able, *_others(scenario)]:
        for where in (*targets, *elsewhere):
            lies = [thing.name, "in", where]
            yield from ([lies], [lies, *_treated(thing)])
            yield from ([lies, *_treated(other)] for other in able if other != thing)
            yield from ([lies, [other.name, "in", to]] for other in able for to in targets)
    yield from ([[1, 2, 3]], [["x", "in"]], [[["x"], "in", "y"]], ["abc"], [{"a": 1, "b": 2, "c": 3}])


def _others(scenario: Scenario) -> list[Thing]:
    return [thing for thing in scenario.things if thing.cls not in (scenario.goal.thing, scenario.goal.target)][:2]


def _under_lamps(scenario: Scenario) -> tuple[Scenario, list[list[Any]]]:
    """Return the scenario as one of looking at an object, with ends: held or not, lamps on and off."""
    lamp, *rest = _others(scenario)
    asked = replace(scenario, goal=replace(scenario.goal, task=_LOOK, target=lamp.cls))
    held = next(["player", "holds", thing.name] for thing in scenario.things if thing.cls == scenario.goal.thing)
    places = [item.name for item in scenario.receptacles]
    return asked, list(_lit(held, [lamp.name, *(thing.name for thing in rest)], places))


def _asked(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario, and others: without a target, with objects that cannot be treated, of other kinds."""
    yield scenario
    yield replace(scenario, goal=replace(scenario.goal, target="nowhere"))
    yield replace(scenario, things=tuple(replace(thing, flags=thing.flags[:1]) for thing in scenario.things))
    for task in TASK_TYPES:
        yield replace(scenario, goal=replace(scenario.goal, task=task))


def _treated(thing: Thing) -> list[JSON]:
    return [[thing.name, "is", state] for state in _STATES]


def _lit(held: list[str], lamps: list[str], places: list[str]) -> Iterator[list[Any]]:
    """Yield ends with an object in the hand and lamps on, off, here and elsewhere."""
    for lamp in lamps[:3]:
        for place in places[:3]:
            on, at, here = [lamp, "is", "toggled"], ["player", "at", place], [lamp, "in", place]
            yield from ([held, on, at, here], [on, at, here], [held, at, here], [held, on, here], [held, on, at])
            yield from ([held, on, here, ["player", "at", other]] for other in places[:3])


AUDIT: Final = Audit(
    luck=0.1,
    ordered=True,
    relations=(
        Relation("evidence-order", "evidence in another order, or twice, is worth the same", _in_another_order, "same"),
        Relation("less-evidence", "an outcome with less evidence earns no more", _less),
        Relation("other-things", "what happened to objects that nobody asked for is worth nothing", _of_other_things),
    ),
    outcomes=outcomes,
    equivalent={
        "agentenvs_scoring.household:_goal_things: '' -> '~' #2": "the state of a goal without one is not used",
        "agentenvs_scoring.household:_two: 0 -> -1": "where no target is, neither 0 nor -1 is one or two",
    },
)
