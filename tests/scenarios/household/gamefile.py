"""Writes game files like the field's from scenarios, so that loading can be tested without the real data."""

import json
import re
from pathlib import Path

FLAGS = {"container": "isReceptacleObject"}
STATES = {"clean": "isClean", "hot": "isHot", "cool": "isCool", "sliced": "isSliced", "toggled": "isToggled"}
PLACING = {"0.3": "put {o} in/on {r}", "0.4": "move {o} to {r}"}
TREATED = {3: ("cleanable", "isClean"), 4: ("heatable", "isHot"), 5: ("coolable", "isCool")}


def goal_text(goal) -> str:
    thing, target = f"{goal.thing}Type", f"{goal.target}Type"
    if goal.id == 2:
        return f"""(and
            (exists (?lamp - object ?r - receptacle ?a - agent ?l - location)
                (and (objectType ?lamp {target}) (toggleable ?lamp) (isToggled ?lamp) (receptacleAtLocation ?r ?l)
                     (atLocation ?a ?l) (inReceptacle ?lamp ?r)))
            (exists (?o - object ?a - agent) (and (objectType ?o {thing}) (holds ?a ?o))))"""
    if goal.id == 6:
        return f"""(and (exists (?r - receptacle) (exists (?o1 - object) (and
            (objectType ?o1 {thing}) (receptacleType ?r {target}) (inReceptacle ?o1 ?r)
            (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 {thing}) (receptacleType ?r {target})
                                        (inReceptacle ?o2 ?r)))))))"""
    extra = "".join(f"({name} ?o) " for name in TREATED.get(goal.id, ()))
    return f"""(and (exists (?r - receptacle) (exists (?o - object) (and {extra}(inReceptacle ?o ?r)
            (objectType ?o {thing}) (receptacleType ?r {target})))))"""


def problem_text(scenario) -> str:
    places = [f"loc_bar_{number:03}" for number in range(len(scenario.places))]
    receptacles = [f"{item.cls}_bar_{number:03}" for number, item in enumerate(scenario.receptacles)]
    # The field's sinks and baths carry their class at the end of the id.
    receptacles = [re.sub(r"^(sink|bathtub)basin(_bar_\d+)$", r"\1\2_bar_\1Basin", item) for item in receptacles]
    things = [f"{item.cls}_bar_{number:03}" for number, item in enumerate(scenario.things)]
    facts = [f"(atLocation agent1 {places[scenario.start]})"]
    for name, item in zip(receptacles, scenario.receptacles, strict=True):
        facts += [f"(receptacleType {name} {item.cls}Type)", f"(receptacleAtLocation {name} {places[item.place]})"]
        facts += [f"(openable {name})"] * item.openable + [f"(opened {name})"] * item.open
    for name, item in zip(things, scenario.things, strict=True):
        facts += [f"(objectType {name} {item.cls}Type)"]
        facts += [f"({FLAGS.get(flag, flag)} {name})" for flag in item.flags]
        facts += [f"({STATES[state]} {name})" for state in item.states]
        facts += [f"(inReceptacle {name} {receptacles[index]})" for index in item.within]
        facts += [f"(objectAtLocation {name} {places[index]})" for index in item.at]
        facts += [f"(inReceptacleObject {things[index]} {name})" for index in item.contents]
    facts += [f"(canContain {cls}Type {thing}Type)" for cls, taken in scenario.accepts for thing in taken]
    lists = (("agent", ["agent1"]), ("object", ["Apple", *things]), ("receptacle", receptacles), ("location", places))
    declared = "\n".join(f"    {name} - {kind}" for kind, names in lists for name in names)
    return (
        f"(define (problem plan_x)\n(:domain alfred)\n(:objects\n{declared}\n)\n(:init ; comment )\n    "
        + "\n    ".join(facts)
        + f"\n    (= (distance a b) 3)\n)\n(:goal {goal_text(scenario.goal)})\n)\n"
    )


def document(scenario, solvable=True) -> dict:
    sentence = json.dumps(f"Your task is to: {scenario.goal.sentence}")
    grammar = (
        f'grammar :: """{{"task": [{{"rhs": {sentence}}}]}}""";\n'
        f'action PutObject {{ template :: "{PLACING[scenario.text_version]}"; }}\n'
    )
    return {
        "pddl_domain": "(define (domain alfred))",
        "grammar": grammar,
        "pddl_problem": problem_text(scenario),
        "solvable": solvable,
    }


def write_game(folder: Path, scenario, solvable=True) -> Path:
    """Write ``game.tw-pddl`` into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "game.tw-pddl"
    path.write_text(json.dumps(document(scenario, solvable)))
    return path
