"""The household's audit: evidence is a set, less of it earns no more, and other objects count nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from agentenvs.core.canon import JSON
from agentenvs_scenarios.household.model import TASK_TYPES, Scenario, Thing
from agentenvs_scoring.audits import Audit, Facts, Relation

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
    goal = scenario.goal
    able = [thing for thing in scenario.things if thing.cls == goal.thing]
    unable = [thing for thing in scenario.things if thing.cls not in (goal.thing, goal.target)][:2]
    targets = [item.name for item in scenario.receptacles if item.cls == goal.target]
    elsewhere = [item.name for item in scenario.receptacles if item.cls != goal.target][:2]
    lamps = [thing.name for thing in scenario.things if thing.cls == goal.target]
    ends: list[list[Any]] = []
    for thing in [*able[:3], *unable]:
        for where in (*targets[:2], *elsewhere):
            ends += [[[thing.name, "in", where]], [[thing.name, "in", where], *_treated(thing)]]
            ends += [[[thing.name, "in", where], *_treated(other)] for other in able[:3] if other != thing]
            ends += [[[thing.name, "in", where], [other.name, "in", to]] for other in able[:3] for to in targets[:2]]
        held = ["player", "holds", thing.name]
        ends += [[held], *_lit(held, [*lamps, *(other.name for other in unable)], [*targets, *elsewhere])]
    ends += [[[1, 2, 3]], [["x", "in"]], [[["x"], "in", "y"]], ["abc"], [{"a": 1, "b": 2, "c": 3}]]
    every = list(_asked(scenario))
    for end in ends:
        yield from ((asked, {**facts, "evidence": end}) for asked in every)
        yield scenario, {**facts, "evidence": end, "turns": 1}


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
