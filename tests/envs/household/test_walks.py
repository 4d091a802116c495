"""On random walks: admissible commands are the valid ones, keys and the goal are kept up to date, forks are apart."""

import json

import pytest

from agentenvs.envs.household.layout import PROFILES, Layout
from agentenvs.envs.household.rules import is_won, state_key
from agentenvs.envs.household.view import NOTHING
from agentenvs.envs.household.world import World
from agentenvs_scenarios.household.builtin import NAMES, builtin
from tests.envs.household.rooms import room, walk


def every_command(layout):
    """Return every command whose words name things of the room, in both releases' words."""
    things, receptacles = layout.things, layout.receptacles
    yield from ("look", "inventory", "help")
    for name in receptacles:
        yield from (f"go to {name}", f"open {name}", f"close {name}", f"examine {name}")
    for thing in things:
        yield from (f"use {thing}", f"examine {thing}")
        for name in receptacles:
            yield from (f"take {thing} from {name}", f"move {thing} to {name}", f"put {thing} in/on {name}")
            yield from (f"{verb} {thing} with {name}" for verb in ("clean", "heat", "cool"))
        for other in things:
            yield f"slice {thing} with {other}"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("text", ["0.3", "0.4"])
def test_admissible_commands_are_those_that_are_valid(profile, text):
    world = World(Layout(room(), profile, text))
    commands = sorted(every_command(world.layout))
    for _ in walk(world, 1, 60):
        valid = [command for command in commands if world.fork().step(command)[1][3] is None]
        assert list(world.admissible()) == valid


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("index", range(len(NAMES)), ids=NAMES)
def test_what_is_kept_up_to_date_is_what_is_computed_from_scratch(profile, index):
    world = World(Layout(builtin(index), profile))
    for command in walk(world, index, 150):
        assert world.key == state_key(world)
        assert world.won == is_won(world)
        assert world.step("take nothing from nowhere") == (NOTHING, (0, -1, -1, "unknown_object", None))
        inside = [[] for _ in world.contents]
        for thing, receptacles in enumerate(world.within):
            assert thing != world.held or not receptacles or profile == "original"
            for receptacle in receptacles:
                inside[receptacle].append(thing)
        assert [list(items) for items in world.contents] == inside, command


@pytest.mark.parametrize("profile", PROFILES)
def test_forks_and_snapshots_go_their_own_way(profile):
    world = World(Layout(builtin(7), profile))
    for number, _ in enumerate(walk(world, 3, 80)):
        saved = json.loads(json.dumps(world.snapshot()))
        twins = [world.fork(), World.restore(world.layout, saved)]
        for twin in twins:
            assert (twin.key, twin.won, twin.snapshot()) == (world.key, world.won, saved)
            assert twin.admissible() == world.admissible()
        for first, second in zip(walk(twins[0], number, 10), walk(twins[1], number, 10), strict=True):
            assert first == second
        assert world.snapshot() == saved
        assert world.key == state_key(world)
        assert twins[0].snapshot() == twins[1].snapshot()


def test_equal_keys_mean_equal_worlds():
    world = World(Layout(builtin(8)))
    seen = {}
    for seed in range(40):
        world = World(world.layout)
        for _ in walk(world, seed, 40):
            saved = json.dumps(world.snapshot())
            assert seen.setdefault(world.key, saved) == saved
    assert len(set(seen.values())) == len(seen)


def test_keys_fit_in_128_bits():
    assert all(World(Layout(builtin(index))).key < 2**128 for index in range(len(NAMES)))


@pytest.mark.parametrize(
    "change",
    [
        {"place": -1},
        {"place": 10**6},
        {"place": True},
        {"held": -2},
        {"held": "mug"},
        {"shut": [[999, 1]]},
        {"shut": [[0, 32]]},
        {"states": [5]},
        {"within": [[0, [1, 0]]]},
        {"within": [[0, [999]]]},
        {"at": None},
        {"gone": [[0, [0, 0]]]},
    ],
)
def test_damaged_snapshots_are_refused(change):
    world = World(Layout(builtin(0)))
    with pytest.raises(ValueError, match=r"index|ascending|saved household|unpack"):
        World.restore(world.layout, {**world.snapshot(), **change})


def test_a_snapshot_without_a_field_is_refused():
    with pytest.raises(ValueError, match="this is no saved household"):
        World.restore(Layout(builtin(0)), {})
