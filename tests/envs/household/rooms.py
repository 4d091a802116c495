"""A small room, made for tests, in which every rule can be tried; and walks through rooms."""

from dataclasses import replace

from agentenvs.core.streams import Stream, scenario_key
from agentenvs.envs.household.layout import Layout
from agentenvs.envs.household.world import World
from agentenvs_scenarios.household.builtin import make
from agentenvs_scenarios.household.model import Thing

FORM = {
    "goal": {"task": "pick_heat_then_place_in_recep", "thing": "mug", "target": "coffeemachine", "sentence": 0},
    "receptacles": {
        "cabinet": 2,
        "coffeemachine": 1,
        "countertop": 1,
        "fridge": 1,
        "microwave": 1,
        "shelf": 1,
        "sidetable": 1,
        "sinkbasin": 1,
    },
    "together": [["coffeemachine 1", "countertop 1"]],
    "fixed": ["cabinet 2"],
    "also": {"mug 1": "countertop 1"},
    "apart": "chair, lightswitch",
    "things": {
        "cabinet 1": "bread, knife",
        "cabinet 2": "bowl",
        "coffeemachine 1": "mug",
        "countertop 1": "apple, butterknife, teddybear",
        "fridge 1": "apple, egg, lettuce",
        "shelf 1": "book, vase",
        "sidetable 1": "desklamp, fork, television",
        "sinkbasin 1": "cup",
    },
}


def room(goal=None, **changes):
    """Return the room; ``goal`` is a task type, an object class and a target class."""
    form = dict(FORM)
    if goal:
        form["goal"] = dict(zip(("task", "thing", "target"), goal, strict=True), sentence=0)
    return replace(make("test/room", form), **changes)


def world(profile="compat", text=None, aliases=False, goal=None, **changes) -> World:
    return World(Layout(room(goal, **changes), profile, text, aliases))


def play(target: World, *commands: str) -> list[str]:
    """Do commands, all of which must be valid, and return the replies."""
    replies = []
    for command in commands:
        reply, event = target.step(command)
        assert event[3] is None, f"{command}: {event[3]}"
        replies.append(reply)
    return replies


def with_thing(scenario, name, **changes):
    """Return a scenario in which one object is different."""
    things = tuple(replace(item, **changes) if item.name == name else item for item in scenario.things)
    assert all(isinstance(item, Thing) for item in things)
    return replace(scenario, things=things)


def walk(target: World, seed: int, steps: int):
    """Walk at random over the admissible commands, yielding each before it is done."""
    stream = Stream(scenario_key("household", "test", seed), "walk")
    for _ in range(steps):
        command = stream.choice(target.admissible())
        yield command
        target.step(command)
