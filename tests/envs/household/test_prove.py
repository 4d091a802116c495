"""The distance in closed form equals a search over the real rules, from every reachable state."""

from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest

from agentenvs.core.streams import Stream, scenario_key
from agentenvs.envs.household import prove
from agentenvs.envs.household.actions import parse_text
from agentenvs.envs.household.layout import PROFILES, Layout
from agentenvs.envs.household.rules import RULES
from agentenvs.envs.household.world import World
from agentenvs_scenarios.household.builtin import NAMES, builtin
from agentenvs_scenarios.household.load import load_game
from agentenvs_scenarios.household.model import TASK_TYPES, Goal, Receptacle, Scenario, Thing, check
from tests.envs.household.rooms import play, room, walk, world

GOALS = (
    ("pick_and_place_simple", "book", "sidetable"),
    ("pick_and_place_simple", "apple", "fridge"),
    ("look_at_obj_in_light", "book", "desklamp"),
    ("pick_clean_then_place_in_recep", "cup", "cabinet"),
    ("pick_clean_then_place_in_recep", "apple", "fridge"),
    ("pick_heat_then_place_in_recep", "mug", "coffeemachine"),
    ("pick_cool_then_place_in_recep", "bread", "countertop"),
    ("pick_two_obj_and_place", "apple", "microwave"),
)

APPLIANCES = ("fridge", "microwave", "sinkbasin")
TREATABLE = {TASK_TYPES[2]: ("cleanable",), TASK_TYPES[3]: ("heatable",), TASK_TYPES[4]: ("heatable", "coolable")}


def tiny(seed: int) -> Scenario:
    """A few receptacles, some shared, shut or open, and objects in none, one or two of them; all at random."""
    stream = Stream(scenario_key("household", "test", seed), "tiny")
    task = TASK_TYPES[seed % 6]
    places = stream.between(2, 4)
    classes = ["target", *(stream.choice(("target", "box", "box")) for _ in range(stream.between(1, 2)))]
    appliance = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}.get(task.split("_")[1])
    if appliance:
        classes.append(appliance)
    classes.sort()
    receptacles = []
    for position, cls in enumerate(classes):
        openable = stream.chance(1, 2)
        name = f"{cls} {classes[position:].count(cls)}"
        receptacles.append(Receptacle(name, cls, stream.below(places), openable, openable and stream.chance(1, 3)))
    count = 3 if task == TASK_TYPES[5] else 2
    wanted = [f"wanted {number}" for number in range(count, 0, -1)]
    kinds = [*(["blocker 1"] if count == 2 or stream.chance(1, 2) else []), *wanted]
    if task == TASK_TYPES[1]:
        kinds = [kinds[0], "lamp 1", *wanted]
    things = []
    for name in kinds:
        cls = name.split()[0]
        size = 1 if cls == "lamp" or stream.chance(2, 3) else stream.below(3)
        within = tuple(sorted(stream.sample(range(len(classes)), min(size, len(classes)))))
        at = tuple(sorted({receptacles[item].place for item in within}))[:1]
        flags = ["pickupable"] if cls != "lamp" and stream.chance(5, 6) else []
        flags += TREATABLE.get(task, ()) if stream.chance(5, 6) else ()
        flags += ["toggleable"] if cls == "lamp" else []
        states = ("cool",) if task == TASK_TYPES[3] and stream.chance(1, 4) else ()
        things.append(Thing(name, cls, tuple(flags), within, at, states))
    takes = {
        cls: [item for item, chances in (("blocker", 2), ("wanted", 5)) if stream.chance(chances, 6)] for cls in classes
    }
    takes["target"] = ["blocker", "wanted"] if stream.chance(1, 2) else ["wanted"]
    if task == TASK_TYPES[1]:
        takes[classes[0]] = ["blocker", "wanted"]
    scenario = Scenario(
        name=f"test/tiny-{seed}",
        text_version="0.4",
        places=tuple(f"loc {number}" for number in range(places + 1, 0, -1)),
        start=stream.choice((places, 0)),
        receptacles=tuple(receptacles),
        things=tuple(things),
        accepts=tuple(sorted((cls, tuple(sorted(taken))) for cls, taken in takes.items())),
        goal=Goal(task, "wanted", "lamp" if task == TASK_TYPES[1] else "target", "do it."),
    )
    check(scenario)
    return scenario


def merged(state: World):
    """All of a state but what only slicing and ``look`` ask for."""
    return state.place, state.held, bytes(state.shut), bytes(state.states), tuple(state.within)


def graph(start: World, limit: int = 20_000):
    """Every state that can be reached by any admissible command, and the states one step before each."""
    states, before = {merged(start): start}, {merged(start): []}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        for command in state.admissible():
            operation, first, second = parse_text(state.layout, command)
            twin = state.fork()
            RULES[operation](twin, first, second)
            key = merged(twin)
            if key not in states:
                states[key] = twin
                before[key] = []
                queue.append(twin)
                assert len(states) <= limit
            before[key].append(merged(state))
    return states, before


def distances(states, before):
    """Steps to the goal of every state that can reach it, by breadth-first search backwards from the goal."""
    found = {key: 0 for key, state in states.items() if state.won}
    queue = deque(found)
    while queue:
        key = queue.popleft()
        for earlier in before[key]:
            if earlier not in found:
                found[earlier] = found[key] + 1
                queue.append(earlier)
    return found


def assert_exact(states, before):
    found = distances(states, before)
    for key, state in states.items():
        assert prove.distance(state) == found.get(key), state.snapshot()
    return found


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", range(24))
def test_distance_equals_search_from_every_state(seed, profile):
    states, before = graph(World(Layout(tiny(seed), profile)))
    assert_exact(states, before)


def assert_locally_exact(state: World):
    """Zero just where the goal holds, no command gains more than one step, and one gains one: so it is the distance."""
    found = prove.distance(state)
    assert (found == 0) == state.won
    after = []
    for command in state.admissible():
        twin = state.fork()
        twin.step(command)
        after.append(prove.distance(twin))
    nearest = min((steps for steps in after if steps is not None), default=None)
    if found is None:
        assert nearest is None
    elif found:
        assert nearest == found - 1


def assert_plan_wins(state: World):
    plan = prove.shortest(state)
    if plan is None:
        assert prove.distance(state) is None
        return
    assert len(plan) == prove.distance(state)
    twin = state.fork()
    for left, command in zip(range(len(plan), 0, -1), plan, strict=True):
        assert not twin.won
        assert prove.distance(twin) == left
        assert twin.apply(command)[1][3] is None
    assert twin.won


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("goal", GOALS, ids="-".join)
def test_distance_on_walks_through_a_room(goal, profile):
    state = world(profile, goal=goal)
    for seed in range(2):
        for step, _ in enumerate(walk(state, seed, 60)):
            if step % 4 == 0:
                assert_locally_exact(state)
                assert_plan_wins(state)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("index", range(len(NAMES)))
def test_builtin_rooms(index, profile):
    layout = Layout(builtin(index), profile)
    proof = prove.prove(layout)
    assert proof.solvable
    assert proof.par == prove.par(layout) == len(proof.plan)
    assert 3 <= proof.par <= 9
    state = World(layout)
    for step, _ in enumerate(walk(state, index, 40)):
        if step % 10 == 0:
            assert_locally_exact(state)
            assert_plan_wins(state)


def test_handed_games(shared_data: Path):
    games = sorted((shared_data / "household" / "json_2.1.1").glob("*/*/*/game.tw-pddl"))
    pars = []
    for number, game in enumerate(games):
        scenario = load_game(game)
        for profile in PROFILES:
            state = World(Layout(scenario, profile))
            assert_plan_wins(state)
            if profile == "original":
                pars.append(prove.distance(state))
        for step, _ in enumerate(walk(state, number, 40)):
            if step % 20 == 19:
                assert_locally_exact(state)
    assert len(games) == 34
    assert (min(pars), max(pars)) == (3, 8)


def pruned(scenario: Scenario) -> Scenario:
    """A real game with two goal objects, and only the receptacles that a solution for them can touch."""
    goal = scenario.goal
    kept = [item for item in scenario.things if item.cls == goal.thing][:2]
    kept += [item for item in scenario.things if item.cls == goal.target]
    targets = [index for index, item in enumerate(scenario.receptacles) if item.cls == goal.target][:2]
    appliances = [index for index, item in enumerate(scenario.receptacles) if item.cls in APPLIANCES]
    rest = sorted({*targets, *appliances, *(index for item in kept for index in item.within)})
    return replace(
        scenario,
        receptacles=tuple(scenario.receptacles[index] for index in rest),
        things=tuple(
            replace(item, within=tuple(rest.index(index) for index in item.within), contents=())
            for item in sorted(kept, key=scenario.things.index)
        ),
    )


def search(start: World) -> int | None:
    """Steps to the goal by plain breadth-first search forwards."""
    steps, seen, edge = 0, {merged(start)}, [start]
    while edge:
        following = []
        for state in edge:
            if state.won:
                return steps
            for command in state.admissible():
                operation, first, second = parse_text(state.layout, command)
                twin = state.fork()
                RULES[operation](twin, first, second)
                key = merged(twin)
                if key not in seen:
                    seen.add(key)
                    following.append(twin)
        steps, edge = steps + 1, following
    return None


@pytest.mark.parametrize("task", TASK_TYPES)
def test_pruned_real_games_equal_a_forward_search(task, shared_data: Path):
    games = sorted((shared_data / "household" / "json_2.1.1").glob(f"*/{task}-*/*/game.tw-pddl"))[:2]
    assert len(games) == 2
    for game in games:
        for profile in PROFILES:
            state = World(Layout(pruned(load_game(game)), profile))
            found = search(state)
            assert found is not None
            assert prove.distance(state) == found


def test_an_object_that_fits_nowhere_is_a_dead_end():
    state = world()
    assert prove.potential(state) > -1
    play(state, "go to countertop 1", "take teddybear 1 from countertop 1")
    assert prove.distance(state) is None
    assert prove.shortest(state) is None
    assert prove.potential(state) == -1


def test_a_scenario_that_cannot_be_solved():
    layout = Layout(room(("pick_and_place_simple", "teddybear", "sidetable")))
    assert prove.prove(layout) == (False, None, ())
    assert prove.par(layout) is None


def test_potential_grows_by_equal_steps_to_zero():
    state = world(goal=("pick_two_obj_and_place", "apple", "microwave"))
    values = [prove.potential(state)]
    for command in prove.prove(state.layout).plan:
        play(state, command)
        values.append(prove.potential(state))
    assert values == [-steps / (prove.FARTHEST + 1) for steps in range(len(values) - 1, -1, -1)]


def test_original_wins_in_the_hand_where_compat_must_place():
    plans = {profile: prove.prove(Layout(room(), profile)).plan for profile in PROFILES}
    assert plans["original"] == (
        "go to countertop 1",
        "take mug 1 from countertop 1",
        "go to microwave 1",
        "heat mug 1 with microwave 1",
    )
    assert len(plans["compat"]) == len(plans["native"]) == 6
