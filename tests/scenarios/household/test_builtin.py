"""The hand-made rooms keep the invariants of the real games (facts of the field, goal pairs)."""

import tomllib
from collections import Counter
from importlib import resources

import pytest

from agentenvs.core.errors import SplitError
from agentenvs_scenarios.household.builtin import NAMES, builtin
from agentenvs_scenarios.household.model import TASK_TYPES
from agentenvs_scenarios.household.tables import ROOMS, tables

ALL = pytest.mark.parametrize("index", range(len(NAMES)), ids=NAMES)
STATE_TASKS = TASK_TYPES[2:5]


def wanted(scenario):
    return [thing for thing in scenario.things if thing.cls == scenario.goal.thing]


def test_two_of_each_task_in_all_rooms():
    assert Counter(builtin(index).goal.task for index in range(len(NAMES))) == dict.fromkeys(TASK_TYPES, 2)
    assert {room for room in ROOMS for name in NAMES if room in name} == set(ROOMS)


@ALL
def test_order_and_numbers(index):
    scenario = builtin(index)
    for items in (scenario.receptacles, scenario.things):
        keys = [(item.cls, -int(item.name.split()[1])) for item in items]
        assert keys == sorted(keys)
        assert all(item.name.split()[0] == item.cls for item in items)


@ALL
def test_all_receptacles_start_closed_and_the_start_is_bare(index):
    scenario = builtin(index)
    assert not any(item.open for item in scenario.receptacles)
    assert all(item.place != scenario.start for item in scenario.receptacles)


@ALL
def test_what_can_be_taken_can_be_put_somewhere_and_lies_where_it_may(index):
    scenario = builtin(index)
    accepts = tables().accepts
    for thing in scenario.things:
        if "pickupable" in thing.flags and thing.within:
            classes = {scenario.receptacles[item].cls for item in thing.within}
            assert classes <= set(accepts[thing.cls]), thing.name


@ALL
def test_goal(index):
    scenario = builtin(index)
    goal = scenario.goal
    things = wanted(scenario)
    assert (2 if goal.id == 6 else 1) <= len([thing for thing in things if thing.within]) <= 4
    if goal.id == 2:
        lamps = [thing for thing in scenario.things if thing.cls == goal.target]
        assert goal.target == "desklamp"
        assert all(lamp.within and "toggleable" in lamp.flags for lamp in lamps)
        return
    assert goal.target in tables().accepts[goal.thing]
    there = [item for thing in things for item in thing.within if scenario.receptacles[item].cls == goal.target]
    assert not there or goal.task in STATE_TASKS


def test_files_and_names_agree():
    folder = resources.files("agentenvs_scenarios.household.builtin")
    assert {item.name for item in folder.iterdir() if item.name.endswith(".toml")} == {f"{n}.toml" for n in NAMES}
    catalogue = tomllib.loads(folder.joinpath("..", "catalogue.toml").read_text())
    assert catalogue["splits"]["builtin"]["size"] == len(NAMES)
    assert [task["name"] for task in catalogue["tasks"]] == list(TASK_TYPES)


@pytest.mark.parametrize("index", [-1, len(NAMES)])
def test_no_such_room(index):
    with pytest.raises(SplitError, match=f"there is no built-in household {index}"):
        builtin(index)


def test_placements_are_percents_of_known_classes():
    known = tables()
    assert set(known.placements) == set(ROOMS)
    for rows in known.placements.values():
        for cls, row in rows.items():
            assert 95 <= sum(row.values()) <= 102, cls


def test_flags_of_a_class():
    assert tables().flags("mug") == ("pickupable", "cleanable", "heatable", "coolable", "container")
    assert tables().flags("desklamp") == ("toggleable",)


def test_the_tables_agree_with_the_handed_games(shared_data):
    from agentenvs_scenarios.household.load import load_game

    known = tables()
    for path in (shared_data / "household").rglob("game.tw-pddl"):
        scenario = load_game(path)
        takers = {receptacle.cls for receptacle in scenario.receptacles}
        accepts = dict(scenario.accepts)
        for thing in scenario.things:
            found = {cls for cls in takers if thing.cls in accepts.get(cls, ())}
            assert found == takers & set(known.accepts.get(thing.cls, ())), (path, thing.name)
            abilities = set(known.flags(thing.cls)) - {"pickupable"}
            assert abilities == set(thing.flags) - {"pickupable"}, (path, thing.name)
