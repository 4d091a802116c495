"""What ``original`` gets wrong, ``compat`` closes and ``native`` mends."""

import pytest

from agentenvs.envs.household.layout import Layout
from agentenvs.envs.household.world import World
from tests.envs.household.rooms import play, room, with_thing, world

PROFILES = ["original", "compat", "native"]

TAKE_MUG = ["go to coffeemachine 1", "take mug 1 from coffeemachine 1"]


@pytest.mark.parametrize(("profile", "won"), list(zip(PROFILES, (True, False, False), strict=True)))
def test_phantom_placement(profile, won):
    """The mug starts in the coffeemachine and on the countertop; taken from one it stays in the other."""
    target = world(profile, goal=("pick_heat_then_place_in_recep", "mug", "countertop"))
    play(target, *TAKE_MUG, "go to microwave 1", "heat mug 1 with microwave 1")
    assert target.won is won
    assert ("mug 1" in play(target, "go to countertop 1")[0]) is won


def test_a_phantom_is_put_back_without_a_double():
    target = world("original")
    play(target, *TAKE_MUG, "move mug 1 to countertop 1")
    assert play(target, "examine countertop 1")[0].count("mug 1") == 1


SLICE = ["go to countertop 1", "take butterknife 1 from countertop 1", "go to fridge 1"]


@pytest.mark.parametrize(("profile", "leaks"), list(zip(PROFILES, (True, False, False), strict=True)))
def test_slice_through_a_closed_door(profile, leaks):
    target = world(profile)
    play(target, *SLICE)
    command = "slice lettuce 1 with butterknife 1"
    assert (command in target.admissible()) is leaks
    assert (target.step(command)[1][3] is None) is leaks
    play(target, "open fridge 1")
    assert command in target.admissible()
    play(target, command)


@pytest.mark.parametrize(("profile", "works"), list(zip(PROFILES, (False, False, True), strict=True)))
def test_going_to_a_neighbour(profile, works):
    target = world(profile)
    play(target, "go to coffeemachine 1")
    assert (target.step("go to countertop 1")[1][3] is None) is works
    assert "examine countertop 1" in target.admissible()


def test_a_taken_object_shows_up_next_to_where_it_was():
    target = world("compat")
    play(target, "go to countertop 1", "take mug 1 from coffeemachine 1", "move mug 1 to countertop 1")
    words = "You are facing the coffeemachine 1, and countertop 1. Next to it, you see a mug 1."
    assert play(target, "look") == [words]
    play(target, "take mug 1 from countertop 1", "move mug 1 to coffeemachine 1")
    assert play(target, "look") == [words]
    play(target, "take mug 1 from coffeemachine 1", "go to shelf 1", "move mug 1 to shelf 1", "go to countertop 1")
    assert play(target, "look") == [words.replace("a mug 1", "nothing")]


def test_place_and_receptacle_may_differ():
    """``at`` is a fact of its own: in ``original`` and ``compat`` slicing asks for it, and for the door only compat."""
    scenario = with_thing(room(), "apple 1", at=(0,))
    for profile in PROFILES:
        target = World(Layout(scenario, profile))
        play(target, *SLICE[:2])
        assert ("slice apple 1 with butterknife 1" in target.admissible()) is (profile == "native")


@pytest.mark.parametrize("profile", PROFILES)
def test_words_are_the_same(profile):
    assert world(profile).opening() == world().opening()


def test_states_of_different_profiles_have_different_keys():
    assert len({world(profile).key for profile in PROFILES}) == 3
