"""Facts of a step: what it observed, used and wrote, and when each was first seen."""

import json

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import SnapshotError
from agentenvs.core.trace import Fact
from agentenvs.core.turn import TraceParts
from agentenvs.envs.household.trace import Seen, milestones, observed, used, written
from tests.envs.household.rooms import play, walk, world

HERE = ("player", "at", "cabinet 1")

STEPS = [
    ("look", [], [], []),
    ("inventory", [("player", "holds", "nothing")], [], []),
    ("help", [], [], []),
    ("nonsense", [], [], []),
    ("go to cabinet 1", [HERE, ("cabinet 1", "is", "closed")], [], [HERE]),
    (
        "open cabinet 1",
        [("cabinet 1", "is", "open"), ("bread 1", "in", "cabinet 1"), ("knife 1", "in", "cabinet 1")],
        [HERE, ("cabinet 1", "is", "closed")],
        [("cabinet 1", "is", "open")],
    ),
    (
        "take knife 1 from cabinet 1",
        [("player", "holds", "knife 1"), ("knife 1", "in", "hand")],
        [("player", "holds", "nothing"), ("knife 1", "in", "cabinet 1"), HERE, ("cabinet 1", "is", "open")],
        [("player", "holds", "knife 1"), ("knife 1", "in", "hand")],
    ),
    ("take bread 1 from cabinet 1", [], [], []),
    (
        "examine cabinet 1",
        [("cabinet 1", "is", "open"), ("bread 1", "in", "cabinet 1")],
        [HERE],
        [],
    ),
    (
        "slice bread 1 with knife 1",
        [("bread 1", "is", "sliced")],
        [("player", "holds", "knife 1"), ("bread 1", "in", "cabinet 1"), HERE, ("cabinet 1", "is", "open")],
        [("bread 1", "is", "sliced")],
    ),
    (
        "close cabinet 1",
        [("cabinet 1", "is", "closed")],
        [HERE, ("cabinet 1", "is", "open")],
        [("cabinet 1", "is", "closed")],
    ),
    (
        "go to sinkbasin 1",
        [("player", "at", "sinkbasin 1"), ("cup 1", "in", "sinkbasin 1")],
        [],
        [("player", "at", "sinkbasin 1")],
    ),
    ("examine knife 1", [("knife 1", "is", "plain")], [("player", "holds", "knife 1")], []),
    (
        "clean knife 1 with sinkbasin 1",
        [("knife 1", "is", "clean")],
        [("player", "holds", "knife 1"), ("player", "at", "sinkbasin 1")],
        [("knife 1", "is", "clean")],
    ),
    ("examine knife 1", [("knife 1", "is", "clean")], [("player", "holds", "knife 1")], []),
    (
        "go to countertop 1",
        [
            ("player", "at", "countertop 1"),
            ("apple 1", "in", "countertop 1"),
            ("butterknife 1", "in", "countertop 1"),
            ("mug 1", "in", "countertop 1"),
            ("teddybear 1", "in", "countertop 1"),
        ],
        [],
        [("player", "at", "coffeemachine 1"), ("player", "at", "countertop 1")],
    ),
    (
        "move knife 1 to countertop 1",
        [("player", "holds", "nothing"), ("knife 1", "in", "countertop 1")],
        [("player", "holds", "knife 1"), ("player", "at", "countertop 1")],
        [("player", "holds", "nothing"), ("knife 1", "in", "countertop 1")],
    ),
    ("look", [("player", "at", "coffeemachine 1"), ("player", "at", "countertop 1")], [], []),
    (
        "go to sidetable 1",
        [
            ("player", "at", "sidetable 1"),
            ("desklamp 1", "in", "sidetable 1"),
            ("fork 1", "in", "sidetable 1"),
            ("television 1", "in", "sidetable 1"),
        ],
        [],
        [("player", "at", "sidetable 1")],
    ),
    (
        "use desklamp 1",
        [("desklamp 1", "is", "toggled")],
        [("desklamp 1", "in", "sidetable 1"), ("player", "at", "sidetable 1")],
        [("desklamp 1", "is", "toggled")],
    ),
]


def test_facts_of_every_operation():
    target = world()
    for command, *expected in STEPS:
        _, event = target.step(command)
        found = [list(facts(target.layout, event)) for facts in (observed, used, written)]
        assert found == expected, command


def test_when_a_fact_was_first_seen():
    target = world()
    seen = Seen(target.layout)
    assert seen.last() == TraceParts()
    assert seen.first(("shelf 1", "in", "room")) == 0
    for command in ("look", "go to shelf 1", "examine shelf 1", "take book 1 from shelf 1"):
        seen.events.append(target.step(command)[1])
    parts = seen.last()
    assert Fact("book 1", "in", "shelf 1", 2) in parts.used
    assert Fact("player", "holds", "nothing", None) in parts.used
    assert parts.written == (Fact("player", "holds", "book 1", 4), Fact("book 1", "in", "hand", 4))
    assert seen.first(("mug 1", "in", "shelf 1")) is None


@pytest.mark.parametrize("lazily", [True, False])
def test_folding_early_or_late_and_in_forks_is_the_same(lazily):
    target = world()
    seen, other = Seen(target.layout), None
    for number, command in enumerate(walk(target.fork(), 2, 120)):
        seen.events.append(target.step(command)[1])
        if number == 60:
            other = seen.fork()
        elif other is not None:
            other.events.append(seen.events[-1])
        if not lazily:
            seen.last()
    assert seen.last() == other.last()
    whole = Seen(target.layout)
    whole.events = list(seen.events)
    assert whole.last() == seen.last()


GO = {name: f"go to {name} 1" for name in ("shelf", "microwave", "coffeemachine", "sidetable", "countertop")}


@pytest.mark.parametrize(
    ("goal", "steps"),
    [
        (
            ("pick_heat_then_place_in_recep", "mug", "coffeemachine"),
            [
                (GO["coffeemachine"], ()),
                ("take mug 1 from coffeemachine 1", ("taken",)),
                ("move mug 1 to countertop 1", ()),
                ("take mug 1 from countertop 1", ("taken",)),
                (GO["microwave"], ()),
                ("heat mug 1 with microwave 1", ("heated",)),
                ("go to sinkbasin 1", ()),
                ("clean mug 1 with sinkbasin 1", ()),
                (GO["coffeemachine"], ()),
                ("move mug 1 to coffeemachine 1", ("placed",)),
                ("take apple 1 from countertop 1", ()),
                ("take butterknife 1 from countertop 1", ()),
            ],
        ),
        (
            ("look_at_obj_in_light", "fork", "desklamp"),
            [
                ("inventory", ()),
                (GO["sidetable"], ()),
                ("take fork 1 from sidetable 1", ("taken",)),
                ("use desklamp 1", ("lit",)),
                ("move fork 1 to sidetable 1", ()),
            ],
        ),
    ],
)
def test_milestones(goal, steps):
    target = world(goal=goal)
    for command, expected in steps:
        _, event = target.step(command)
        assert milestones(target.layout, event) == expected, command


def test_the_original_slices_through_a_closed_door():
    target = world("original")
    play(target, "go to countertop 1", "take butterknife 1 from countertop 1", "go to cabinet 1")
    _, event = target.step("slice bread 1 with butterknife 1")
    assert used(target.layout, event) == [("player", "holds", "butterknife 1"), ("bread 1", "in", "cabinet 1"), HERE]


@pytest.mark.parametrize(
    "event",
    [
        [1, 999, -1, None, []],
        [1, "0", -1, None, []],
        [16, 0, 0, None, None],
        [-1, 0, 0, None, None],
        [1, 0, -1, None, [999]],
        [1, 0, -1, 3, None],
        [1, -2, -1, None, []],
    ],
)
def test_a_snapshot_with_a_senseless_event_is_refused(event):
    env = registry.make("household")
    env.reset()
    env.step("look")
    form = json.loads(env.snapshot())
    assert len(form["world"]["events"]) == 1
    form["world"]["events"] = [event]
    with pytest.raises(SnapshotError):
        env.restore(json.dumps(form).encode())
