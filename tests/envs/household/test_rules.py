"""What each command needs, does and says, and why it fails."""

from dataclasses import replace

import pytest

from agentenvs.envs.household.layout import Layout
from agentenvs.envs.household.rules import is_won, state_key
from agentenvs.envs.household.view import HELP_TEXT, NOTHING
from agentenvs.envs.household.world import World
from agentenvs_scenarios.household.model import Goal
from tests.envs.household.rooms import play, room, with_thing, world


def test_opening():
    assert world().opening() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        "You are in the middle of a room. Looking quickly around you, you see a cabinet 2, a cabinet 1, "
        "a coffeemachine 1, a countertop 1, a fridge 1, a microwave 1, a shelf 1, a sidetable 1, and a sinkbasin 1."
        "\n\nYour task is to: put a hot mug in coffeemachine."
    )


DIALOGUE = [
    ("look", "You are in the middle of a room. Looking quickly around you, you see nothing."),
    ("inventory", "You are not carrying anything."),
    ("help", HELP_TEXT),
    ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a book 1, and a vase 1."),
    ("go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed."),
    ("examine cabinet 1", "The cabinet 1 is closed."),
    ("open cabinet 1", "You open the cabinet 1. The cabinet 1 is open. In it, you see a bread 1, and a knife 1."),
    ("take knife 1 from cabinet 1", "You pick up the knife 1 from the cabinet 1."),
    ("examine cabinet 1", "The cabinet 1 is open. In it, you see a bread 1."),
    ("slice bread 1 with knife 1", "You sliced the bread 1 with the knife 1."),
    ("slice bread 1 with knife 1", "You sliced the bread 1 with the knife 1."),
    ("close cabinet 1", "You close the cabinet 1."),
    ("inventory", "You are carrying: a knife 1."),
    ("examine knife 1", "There's nothing special about knife 1."),
    ("go to sinkbasin 1", "You arrive at sinkbasin 1. On the sinkbasin 1, you see a cup 1."),
    ("clean knife 1 with sinkbasin 1", "You clean the knife 1 using the sinkbasin 1."),
    ("examine knife 1", "This is a clean knife 1."),
    ("go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see a apple 1, a butterknife"),
    ("look", "You are facing the coffeemachine 1, and countertop 1. Next to it, you see nothing."),
    ("move knife 1 to countertop 1", "You move the knife 1 to the countertop 1."),
    ("go to cabinet 2", "You arrive at cabinet 2. On the cabinet 2, you see a bowl 1."),
    ("take bowl 1 from cabinet 2", "You pick up the bowl 1 from the cabinet 2."),
    ("examine cabinet 2", "On the cabinet 2, you see nothing."),
    ("examine bowl 1", "This is a normal bowl 1. In it, you see nothing."),
    ("look", "You are facing the cabinet 2. Next to it, you see nothing."),
    ("go to sidetable 1", "You arrive at sidetable 1. On the sidetable 1, you see a desklamp 1, a fork 1, and a telev"),
    ("use desklamp 1", "You turn on the desklamp 1."),
    ("use desklamp 1", "You turn on the desklamp 1."),
]


def test_a_dialogue():
    target = world(profile="original")
    for command, expected in DIALOGUE:
        assert play(target, command)[0].startswith(expected), command
    # Names are in id order: alphabetical by class.
    assert play(target, "go to countertop 1")[0] == (
        "You arrive at countertop 1. On the countertop 1, you see a apple 1, a butterknife 1, a knife 1, a mug 1, "
        "and a teddybear 1."
    )


def test_words_of_the_older_release():
    target = world(text="0.3")
    where = target.layout.place_names[target.layout.place_of[target.layout.receptacle_index["shelf 1"]]]
    assert play(target, "go to shelf 1") == [f"You arrive at {where}. On the shelf 1, you see a book 1, and a vase 1."]
    assert play(target, "take book 1 from shelf 1", "put book 1 in/on shelf 1") == [
        "You pick up the book 1 from the shelf 1.",
        "You put the book 1 in/on the shelf 1.",
    ]
    assert target.step("help") == (NOTHING, (0, -1, -1, "unknown_command", None))
    assert "help" not in target.admissible()


@pytest.mark.parametrize(
    ("before", "command", "error"),
    [
        ([], "dance", "unknown_command"),
        ([], "go to bed 1", "unknown_receptacle"),
        ([], "take sword 1 from shelf 1", "unknown_object"),
        (["go to shelf 1"], "go to shelf 1", "already_there"),
        (["go to coffeemachine 1"], "go to countertop 1", "already_there"),
        ([], "open fridge 1", "not_here"),
        (["go to fridge 1", "open fridge 1"], "open fridge 1", "already_open"),
        (["go to shelf 1"], "open shelf 1", "not_openable"),
        (["go to cabinet 2"], "open cabinet 2", "not_openable"),
        ([], "close fridge 1", "not_here"),
        (["go to fridge 1"], "close fridge 1", "already_closed"),
        (["go to shelf 1"], "close shelf 1", "not_openable"),
        ([], "take book 1 from shelf 1", "not_here"),
        (["go to fridge 1"], "take egg 1 from fridge 1", "closed"),
        (["go to shelf 1"], "take egg 1 from shelf 1", "not_in"),
        (["go to sidetable 1"], "take television 1 from sidetable 1", "not_pickupable"),
        (["go to shelf 1", "take book 1 from shelf 1"], "take vase 1 from shelf 1", "hand_full"),
        (["go to shelf 1"], "move book 1 to shelf 1", "not_held"),
        (["go to shelf 1", "take book 1 from shelf 1"], "move book 1 to sidetable 1", "not_here"),
        (["go to shelf 1", "take book 1 from shelf 1", "go to fridge 1"], "move book 1 to fridge 1", "closed"),
        (
            ["go to shelf 1", "take book 1 from shelf 1", "go to sinkbasin 1"],
            "move book 1 to sinkbasin 1",
            "cannot_contain",
        ),
        (["go to sinkbasin 1"], "clean cup 1 with sinkbasin 1", "not_held"),
        (["go to sinkbasin 1", "take cup 1 from sinkbasin 1"], "heat cup 1 with microwave 1", "not_here"),
        (["go to sinkbasin 1", "take cup 1 from sinkbasin 1"], "heat cup 1 with sinkbasin 1", "wrong_appliance"),
        (
            ["go to shelf 1", "take vase 1 from shelf 1", "go to sinkbasin 1"],
            "clean vase 1 with sinkbasin 1",
            "not_able",
        ),
        ([], "use desklamp 1", "not_here"),
        (["go to shelf 1"], "use book 1", "not_able"),
        ([], "slice apple 1 with knife 1", "not_held"),
        (["go to countertop 1", "take apple 1 from countertop 1"], "slice bread 1 with apple 1", "no_knife"),
        (
            ["go to countertop 1", "take butterknife 1 from countertop 1"],
            "slice mug 1 with butterknife 1",
            "not_able",
        ),
        (
            ["go to countertop 1", "take butterknife 1 from countertop 1"],
            "slice bread 1 with butterknife 1",
            "not_here",
        ),
        (["go to shelf 1"], "examine book 1", "not_held"),
        ([], "examine shelf 1", "not_here"),
        ([], "examine sword 1", "unknown_object"),
    ],
)
def test_why_a_command_fails(before, command, error):
    target = world()
    play(target, *before)
    key, saved, admissible = target.key, target.snapshot(), target.admissible()
    reply, event = target.step(command)
    assert (reply, event[3]) == (NOTHING, error)
    assert (target.key, target.snapshot(), target.admissible()) == (key, saved, admissible)


STATES = [
    ((), "There's nothing special about apple 1."),
    (("clean",), "This is a clean apple 1."),
    (("hot",), "This is a hot apple 1."),
    (("cool",), "This is a cold apple 1."),
    (("sliced",), "This is a sliced apple 1."),
    (("clean", "hot"), "This is a hot and clean apple 1."),
    (("clean", "cool"), "This is a cool and clean apple 1."),
    (("clean", "sliced"), "This is a clean sliced apple 1."),
    (("hot", "sliced"), "This is a hot sliced apple 1."),
    (("cool", "sliced"), "This is a cool sliced apple 1."),
    (("clean", "hot", "sliced"), "This is a hot and clean sliced apple 1."),
    (("clean", "cool", "sliced"), "This is a cool and clean sliced apple 1."),
]


@pytest.mark.parametrize(("states", "words"), STATES)
def test_how_an_object_looks(states, words):
    target = World(Layout(with_thing(room(), "apple 1", states=states)))
    *_, reply = play(target, "go to countertop 1", "take apple 1 from countertop 1", "examine apple 1")
    assert reply == words


def test_a_lamp_that_can_be_held_tells_whether_it_is_on():
    target = World(Layout(with_thing(room(), "desklamp 1", flags=("pickupable", "toggleable"))))
    take = ("go to sidetable 1", "take desklamp 1 from sidetable 1", "examine desklamp 1")
    assert play(target.fork(), *take)[-1] == "This desklamp 1 is off."
    assert play(target, take[0], "use desklamp 1", *take[1:])[-1] == "This desklamp 1 is on."


def test_what_is_inside_a_container_is_listed():
    scenario = room()
    spoon = [item.name for item in scenario.things].index("egg 1")
    target = World(Layout(with_thing(scenario, "bowl 1", contents=(spoon,))))
    *_, reply = play(target, "go to cabinet 2", "take bowl 1 from cabinet 2", "examine bowl 1")
    assert reply == "This is a normal bowl 1. In it, you see a egg 1."


def test_hot_and_cool_replace_each_other_and_doors_may_be_closed():
    target = world()
    play(target, "go to countertop 1", "take apple 1 from countertop 1", "go to fridge 1", "cool apple 1 with fridge 1")
    assert play(target, "examine apple 1") == ["This is a cold apple 1."]
    play(target, "go to microwave 1", "heat apple 1 with microwave 1")
    assert play(target, "examine apple 1") == ["This is a hot apple 1."]


GOALS = [
    (
        ("pick_and_place_simple", "book", "sidetable"),
        """go to shelf 1; take book 1 from shelf 1; go to sidetable 1; move book 1 to sidetable 1""",
    ),
    (
        ("look_at_obj_in_light", "book", "desklamp"),
        """go to shelf 1; take book 1 from shelf 1; go to sidetable 1; use desklamp 1""",
    ),
    (
        ("look_at_obj_in_light", "fork", "desklamp"),
        """go to sidetable 1; use desklamp 1; take fork 1 from sidetable 1""",
    ),
    (
        ("look_at_obj_in_light", "book", "desklamp"),
        """go to sidetable 1; use desklamp 1; go to shelf 1; take book 1 from shelf 1; go to sidetable 1""",
    ),
    (
        ("pick_clean_then_place_in_recep", "cup", "sinkbasin"),
        """go to sinkbasin 1; take cup 1 from sinkbasin 1; clean cup 1 with sinkbasin 1; move cup 1 to sinkbasin 1""",
    ),
    (
        ("pick_heat_then_place_in_recep", "mug", "shelf"),
        """go to coffeemachine 1; take mug 1 from coffeemachine 1; go to microwave 1; heat mug 1 with microwave 1;
        go to shelf 1; move mug 1 to shelf 1""",
    ),
    (
        ("pick_cool_then_place_in_recep", "cup", "shelf"),
        """go to sinkbasin 1; take cup 1 from sinkbasin 1; go to fridge 1; cool cup 1 with fridge 1; go to shelf 1;
        move cup 1 to shelf 1""",
    ),
    (
        ("pick_two_obj_and_place", "apple", "sidetable"),
        """go to countertop 1; take apple 1 from countertop 1; go to sidetable 1; move apple 1 to sidetable 1;
        go to fridge 1; open fridge 1; take apple 2 from fridge 1; go to sidetable 1; move apple 2 to sidetable 1""",
    ),
]


@pytest.mark.parametrize(("goal", "commands"), GOALS)
@pytest.mark.parametrize("profile", ["original", "compat", "native"])
def test_the_goal_holds_with_the_last_command_and_not_before(goal, commands, profile):
    target = world(profile, goal=goal)
    for command in commands.split(";"):
        assert not target.won
        play(target, command)
    assert target.won
    assert is_won(target)


def test_two_objects_in_two_receptacles_are_not_enough():
    scenario = replace(room(), goal=Goal("pick_two_obj_and_place", "apple", "cabinet", "Two, please."))
    apart = with_thing(with_thing(scenario, "apple 1", within=(0,)), "apple 2", within=(1,))
    assert [scenario.receptacles[index].cls for index in (0, 1)] == ["cabinet", "cabinet"]
    assert not World(Layout(apart)).won
    assert World(Layout(with_thing(apart, "apple 2", within=(0,)))).won


def test_undoing_the_goal_undoes_the_win():
    target = world(goal=GOALS[0][0])
    play(target, *GOALS[0][1].split(";"))
    play(target, "take book 1 from sidetable 1")
    assert not target.won


def test_an_object_that_cannot_have_the_state_does_not_count():
    scenario = with_thing(room(), "mug 1", flags=("pickupable",))
    assert Layout(scenario).wanted == ()


def test_a_walk_that_returns_has_the_key_it_began_with():
    target = world()
    keys = [target.key]
    play(target, "go to shelf 1")
    keys.append(target.key)
    play(target, "take book 1 from shelf 1", "move book 1 to shelf 1")
    assert target.key == keys[1]
    play(target, "look", "inventory", "help", "examine shelf 1", "go to fridge 1", "open fridge 1")
    assert target.key not in keys
    play(target, "close fridge 1", "go to shelf 1")
    assert target.key == keys[1] == state_key(target)
