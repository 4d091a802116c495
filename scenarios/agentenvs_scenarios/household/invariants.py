"""What the field's games have in common, checked on a scenario: each is a task, and no task by accident.

Counted on real games: no goal object lies in a target at the start where it is only to be placed; there are one to four
of them, two at least where two are asked for; the lamp of a look task stands in the open; all that can be closed is.
Ours on top: no object is in two places, and what can be taken can be put down.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentenvs_scenarios.household.model import Scenario, Thing
from agentenvs_scenarios.household.statistics import GOAL_MOST

_LOOK: Final = "look_at_obj_in_light"
_TWO: Final = "pick_two_obj_and_place"
_TREATED: Final = {
    "pick_clean_then_place_in_recep": ("cleanable", "sinkbasin"),
    "pick_heat_then_place_in_recep": ("heatable", "microwave"),
    "pick_cool_then_place_in_recep": ("coolable", "fridge"),
}


def faults(scenario: Scenario) -> list[str]:
    """Return in words what of a generated scenario is not as it must be; empty where all is well."""
    return [*_room_faults(scenario), *_goal_faults(scenario)]


def useful(scenario: Scenario) -> list[Thing]:
    """Return the objects that can serve the goal: of its class, within reach of the hand, with the ability it asks."""
    ability, _ = _TREATED.get(scenario.goal.task, ("pickupable", ""))
    return [
        thing
        for thing in scenario.things
        if thing.cls == scenario.goal.thing and thing.within and {"pickupable", ability} <= set(thing.flags)
    ]


def _room_faults(scenario: Scenario) -> Iterator[str]:
    if any(item.open for item in scenario.receptacles):
        yield "a receptacle is open at the start"
    if any(item.place == scenario.start for item in scenario.receptacles):
        yield "a receptacle is where the player starts"
    places = [item.place for item in scenario.receptacles]
    for thing in scenario.things:
        if len(thing.within) > 1 or thing.at != tuple(places[item] for item in thing.within):
            yield f"{thing.name} is in two places"


def _goal_faults(scenario: Scenario) -> Iterator[str]:
    goal = scenario.goal
    found = len(useful(scenario))
    least = 2 if goal.task == _TWO else 1
    if not least <= found <= GOAL_MOST:
        yield f"{found} objects can serve the goal"
    if goal.task == _LOOK:
        yield from _lamp_faults(scenario)
        return
    classes = [item.cls for item in scenario.receptacles]
    if goal.target not in classes:
        yield f"there is no {goal.target}"
    if goal.thing not in dict(scenario.accepts).get(goal.target, ()):
        yield f"a {goal.target} takes no {goal.thing}"
    _, appliance = _TREATED.get(goal.task, ("", ""))
    if appliance and appliance not in classes:
        yield f"there is no {appliance}"
    for thing in scenario.things:
        in_target = thing.cls == goal.thing and any(classes[item] == goal.target for item in thing.within)
        if in_target and (not appliance or "pickupable" not in thing.flags):
            yield f"{thing.name} is in a target already"


def _lamp_faults(scenario: Scenario) -> Iterator[str]:
    lamps = [thing for thing in scenario.things if "toggleable" in thing.flags and thing.within]
    if scenario.goal.target not in [lamp.cls for lamp in lamps]:
        yield f"no {scenario.goal.target} stands anywhere"
    if any(lamp.cls != scenario.goal.target for lamp in lamps):
        yield "there are lamps of two classes"
    if any(scenario.receptacles[item].openable for lamp in lamps for item in lamp.within):
        yield "a lamp is behind a door"
