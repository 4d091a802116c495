"""What an outcome in the household is worth: 1 once the goal holds, else 0.

The outcome facts are evidence, ``[entity, relation, value]`` triples about the last state; the goal's conditions are
looked for in it here, against the classes and abilities in the scenario, and not in the rules. Running into a limit or
walking away earns nothing, whatever stands where; parts of a goal are reported as components and pay nothing. What is
no evidence shows nothing: facts of any form get a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from agentenvs.core.canon import JSON
from agentenvs.core.verdict import Ending, Verdict
from agentenvs_scenarios.household.model import Scenario

_STATES: Final = {
    "pick_clean_then_place_in_recep": ("cleanable", "clean"),
    "pick_heat_then_place_in_recep": ("heatable", "hot"),
    "pick_cool_then_place_in_recep": ("coolable", "cool"),
}

_Triples = frozenset[tuple[str, str, str]]
_Parts = dict[str, bool]


def judge(scenario: Scenario, facts: Mapping[str, JSON], ending: Ending) -> Verdict:
    """Return the verdict on an outcome.

    Args:
        scenario: The scenario that was played.
        facts: ``turns`` and ``evidence``; see the module.
        ending: How the episode ended; only one that terminated, after a turn at least, can have been won.
    """
    parts, holds = _CONDITIONS.get(scenario.goal.task, _treated)(scenario, _triples(facts.get("evidence")))
    turns = facts.get("turns")
    success = holds and ending == "terminated" and type(turns) is int and turns > 0
    return Verdict(
        reward=1.0 if success else 0.0,
        success=success,
        components={name: 1.0 if held else 0.0 for name, held in parts.items()},
        reasons=tuple(_reasons(parts, holds, success, ending)),
        facts=dict(facts),
    )


def _triples(evidence: JSON) -> _Triples:
    """Return the facts of an evidence; what does not have the form of one is left out."""
    listed = evidence if isinstance(evidence, list | tuple) else ()
    return frozenset(
        (fact[0], fact[1], fact[2])
        for fact in listed
        if isinstance(fact, list | tuple) and len(fact) == 3 and all(isinstance(part, str) for part in fact)
    )


def _goal_things(scenario: Scenario) -> list[str]:
    """Return the objects that count: of the goal's class, and able to have the state it asks for."""
    ability, _ = _STATES.get(scenario.goal.task, ("", ""))
    return [
        thing.name
        for thing in scenario.things
        if thing.cls == scenario.goal.thing and (not ability or ability in thing.flags)
    ]


def _targets(scenario: Scenario) -> list[str]:
    return [receptacle.name for receptacle in scenario.receptacles if receptacle.cls == scenario.goal.target]


def _placed(scenario: Scenario, triples: _Triples) -> tuple[_Parts, bool]:
    targets = _targets(scenario)
    placed = any((thing, "in", target) in triples for thing in _goal_things(scenario) for target in targets)
    return {"placed": placed}, placed


def _treated(scenario: Scenario, triples: _Triples) -> tuple[_Parts, bool]:
    _, state = _STATES[scenario.goal.task]
    things, targets = _goal_things(scenario), _targets(scenario)
    treated = [thing for thing in things if (thing, "is", state) in triples]
    placed = [thing for thing in things if any((thing, "in", target) in triples for target in targets)]
    return {state: bool(treated), "placed": bool(placed)}, any(thing in placed for thing in treated)


def _two(scenario: Scenario, triples: _Triples) -> tuple[_Parts, bool]:
    things = _goal_things(scenario)
    most = max((sum((thing, "in", target) in triples for thing in things) for target in _targets(scenario)), default=0)
    return {"placed": most >= 1, "placed_both": most >= 2}, most >= 2


def _lit(scenario: Scenario, triples: _Triples) -> tuple[_Parts, bool]:
    held = any(("player", "holds", thing) in triples for thing in _goal_things(scenario))
    lamps = [thing.name for thing in scenario.things if thing.cls == scenario.goal.target]
    on = [lamp for lamp in lamps if (lamp, "is", "toggled") in triples]
    here = {value for entity, relation, value in triples if (entity, relation) == ("player", "at")}
    beside = any((lamp, "in", receptacle) in triples for lamp in on for receptacle in sorted(here))
    return {"held": held, "lit": bool(on), "beside": beside}, held and beside


_Condition = Callable[[Scenario, _Triples], tuple[_Parts, bool]]
_CONDITIONS: Final[dict[str, _Condition]] = {
    "pick_and_place_simple": _placed,
    "look_at_obj_in_light": _lit,
    "pick_two_obj_and_place": _two,
}

_WORDS: Final = {
    "placed": "a goal object is in a target receptacle",
    "placed_both": "two goal objects are in the same target receptacle",
    "clean": "a goal object is clean",
    "hot": "a goal object is hot",
    "cool": "a goal object is cool",
    "held": "a goal object is in the hand",
    "lit": "a lamp of the goal was turned on",
    "beside": "the player is beside such a lamp",
}


def _reasons(parts: _Parts, holds: bool, success: bool, ending: Ending) -> Iterable[str]:
    for name, held in parts.items():
        yield f"{'yes' if held else 'no'}: {_WORDS[name]}"
    if all(parts.values()) and not holds:
        yield "no: it is one and the same object"
    if holds and not success:
        earned = "nothing was done" if ending == "terminated" else f"the episode was {ending}"
        yield f"{earned}, which earns nothing"
