"""Generated households: pure, sound, each layout in one split, and like the field's rooms in number and place."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources

import pytest

from agentenvs.core.streams import scenario_key, sealed_key
from agentenvs_scenarios.household import sentences
from agentenvs_scenarios.household.furnish import SHARES, layout_digest, split_of
from agentenvs_scenarios.household.generate import SPLITS, generate
from agentenvs_scenarios.household.invariants import faults, useful
from agentenvs_scenarios.household.ladder import DIFFICULTIES, MIXED, RUNGS, ladder, rung_of
from agentenvs_scenarios.household.model import Scenario, check
from agentenvs_scenarios.household.tables import ROOMS, tables

MANY = 3000
SIGNS = {"microwave": "kitchen", "toilet": "bathroom", "bed": "bedroom", "sofa": "livingroom"}
COUNTED = tomllib.loads(resources.files("agentenvs_scenarios.household").joinpath("statistics.toml").read_text("utf-8"))


def key(split: str, index: int) -> bytes:
    return scenario_key("household", split, index)


@cache
def train() -> tuple[Scenario, ...]:
    return tuple(generate(key("train", index)) for index in range(MANY))


@cache
def rung(name: str) -> tuple[Scenario, ...]:
    return tuple(generate(key("train", index), name) for index in range(300))


def room_of(scenario: Scenario) -> str:
    return next(room for sign, room in SIGNS.items() if any(item.cls == sign for item in scenario.receptacles))


def of_room(room: str) -> list[Scenario]:
    return [scenario for scenario in train() if room_of(scenario) == room]


def distance(seen: Mapping[object, float], expected: Mapping[object, float]) -> float:
    """Return the total-variation distance of two distributions given by weights."""
    left, right = sum(seen.values()), sum(expected.values())
    return sum(abs(seen.get(key, 0) / left - expected.get(key, 0) / right) for key in {*seen, *expected}) / 2


def test_a_scenario_is_a_function_of_key_difficulty_and_split():
    for split in SPLITS:
        first, again = (generate(key("train", 5), "medium", split) for _ in range(2))
        assert first == again
        assert first.digest == again.digest
    digests = {generate(key("train", 5), difficulty, split).digest for difficulty in RUNGS for split in SPLITS}
    assert len(digests) == len(RUNGS) * len(SPLITS)


def test_scenarios_are_sound_and_different():
    for scenario in train():
        check(scenario)
        assert faults(scenario) == []
    assert len({scenario.digest for scenario in train()}) == MANY
    assert Scenario.from_json(train()[0].to_json()) == train()[0]


@pytest.mark.parametrize("index", [-1, -(2**70), 2**64, 10**40])
def test_every_whole_number_is_a_seed(index):
    assert faults(generate(key("train", index))) == []


def test_the_sentence_asks_for_the_goal():
    variants = Counter()
    for scenario in train():
        goal = scenario.goal
        assert sentences.read(goal.sentence) == (goal.task, goal.thing, goal.target)
        variants[goal.sentence == sentences.write(goal.task, goal.thing, goal.target, 0)] += 1
    assert abs(variants[True] - variants[False]) < 0.1 * MANY


def test_id_order_and_places():
    for scenario in train()[:200]:
        for items in (scenario.receptacles, scenario.things):
            order = [(item.cls, -int(item.name.split()[1])) for item in items]
            assert order == sorted(order)
        assert {item.place for item in scenario.receptacles} == set(range(scenario.start))
        assert len(scenario.places) == scenario.start + 1


def test_no_layout_is_in_two_splits():
    layouts = {"train": {layout_digest(scenario.receptacles) for scenario in train()}}
    layouts |= {
        split: {layout_digest(generate(key(split, index), MIXED, split).receptacles) for index in range(200)}
        for split in ("dev", "test", "sealed")
    }
    for split, digests in layouts.items():
        assert {split_of(digest) for digest in digests} == {split}
    assert len(set.union(*layouts.values())) == sum(map(len, layouts.values()))
    assert min(map(len, layouts.values())) > 150


def test_shares_of_the_splits_are_as_the_catalogue_says():
    catalogue = tomllib.loads(
        resources.files("agentenvs_scenarios.household").joinpath("catalogue.toml").read_text("utf-8")
    )
    assert {split: catalogue["splits"][split]["sixteenths"] for split in SHARES} == SHARES
    assert sum(SHARES.values()) == 16


def test_a_layout_is_known_again_however_its_places_are_numbered():
    receptacles = train()[0].receptacles
    moved = [replace(item, place=99 - item.place) for item in receptacles]
    assert layout_digest(moved) == layout_digest(receptacles)
    for change in ({"openable": not receptacles[3].openable}, {"place": receptacles[0].place}, {"name": "shelf 77"}):
        other = [*receptacles[:3], replace(receptacles[3], **change), *receptacles[4:]]
        assert layout_digest(other) != layout_digest(receptacles)


def test_a_sealed_scenario_has_no_telling_name_and_needs_the_secret():
    made = [generate(sealed_key(secret, "household", 0), MIXED, "sealed") for secret in (b"a" * 16, b"b" * 16)]
    assert {scenario.name for scenario in made} == {"sealed"}
    assert made[0].digest != made[1].digest


# ---- statistics: the bounds stand in CARD.md ------------------------------------------------------------------------


@pytest.mark.parametrize("room", ROOMS)
def test_receptacles_are_as_many_as_counted(room):
    of, fewest, most = COUNTED["rooms"][room]
    rows = COUNTED["receptacles"][room]
    found = of_room(room)
    seen = Counter(item.cls for scenario in found for item in scenario.receptacles)
    assert distance(seen, {cls: often * tenths for cls, (often, tenths, _) in rows.items()}) <= 0.03
    for scenario in found:
        counts = Counter(item.cls for item in scenario.receptacles)
        assert fewest <= len(scenario.receptacles) <= most
        assert all(count <= rows[cls][2] for cls, count in counts.items())
    for cls, (often, _, _) in rows.items():
        has = sum(any(item.cls == cls for item in scenario.receptacles) for scenario in found)
        assert abs(has / len(found) - often / of) <= 0.12, cls


@pytest.mark.parametrize(
    ("room", "together"), [("kitchen", 0.21), ("livingroom", 0.09), ("bedroom", 0.17), ("bathroom", 0.11)]
)
def test_receptacles_stand_together_as_often_as_counted(room, together):
    shared = total = 0
    for scenario in of_room(room):
        counts = Counter(item.place for item in scenario.receptacles)
        shared += sum(counts[item.place] > 1 for item in scenario.receptacles)
        total += len(scenario.receptacles)
    assert abs(shared / total - together) <= 0.02


def test_as_many_cabinets_and_drawers_open_as_counted():
    for room in ROOMS:
        for cls, percent in COUNTED["openable"][room].items():
            found = [item.openable for scenario in of_room(room) for item in scenario.receptacles if item.cls == cls]
            assert len(found) < 100 or abs(sum(found) / len(found) - percent / 100) <= 0.04, (room, cls)


@pytest.mark.parametrize("room", ROOMS)
def test_objects_are_as_many_as_counted(room):
    rows = COUNTED["objects"][room]
    found = of_room(room)
    seen = Counter(thing.cls for scenario in found for thing in scenario.things)
    assert distance(seen, {cls: often * tenths for cls, (often, tenths, _) in rows.items()}) <= 0.03
    for cls, (often, _, _) in rows.items():
        has = sum(any(thing.cls == cls for thing in scenario.things) for scenario in found)
        assert abs(has / len(found) - often / 100) <= 0.10, cls


@pytest.mark.parametrize(
    ("room", "most"), [("kitchen", 0.04), ("livingroom", 0.15), ("bedroom", 0.06), ("bathroom", 0.05)]
)
def test_objects_lie_where_counted(room, most):
    placements = tables().placements[room]
    seen = Counter(
        (thing.cls, scenario.receptacles[spot].cls)
        for scenario in of_room(room)
        for thing in scenario.things
        for spot in thing.within
        if thing.cls in placements
    )
    lying = Counter(cls for (cls, _), count in seen.items() for _ in range(count))
    expected = {
        (cls, where): count * percent / sum(placements[cls].values())
        for cls, count in lying.items()
        for where, percent in placements[cls].items()
    }
    assert distance(seen, expected) <= most


def test_goals_are_asked_as_often_as_counted():
    seen = Counter((s.goal.task, room_of(s), s.goal.thing, s.goal.target) for s in train())
    expected = {
        (task, room, thing, target): count
        for task, by_room in COUNTED["goals"].items()
        for room, by_thing in by_room.items()
        for thing, by_target in by_thing.items()
        for target, count in by_target.items()
    }
    assert distance(_by(2, seen), _by(2, expected)) <= 0.04
    assert distance(_by(3, seen), _by(3, expected)) <= 0.11
    assert set(seen) <= set(expected)


def _by(width: int, counts: Mapping[tuple[str, ...], float]) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for row, count in counts.items():
        found[row[:width]] += count  # type: ignore[assignment]
    return found


def test_goal_objects_are_one_to_four_and_seldom_all_behind_doors():
    hidden = sum(_is_hidden(scenario) for scenario in train())
    assert hidden / MANY <= 0.07
    numbers = Counter(len(useful(scenario)) for scenario in train())
    assert set(numbers) == {1, 2, 3, 4}


def _is_hidden(scenario: Scenario) -> bool:
    return all(scenario.receptacles[spot].openable for thing in useful(scenario) for spot in thing.within)


@pytest.mark.parametrize(
    ("task", "least", "most"),
    [
        ("pick_and_place_simple", 0, 0),
        ("pick_two_obj_and_place", 0, 0),
        ("pick_clean_then_place_in_recep", 0.3, 0.55),
        ("pick_heat_then_place_in_recep", 0.3, 0.55),
        ("pick_cool_then_place_in_recep", 0.3, 0.55),
    ],
)
def test_a_goal_object_lies_in_a_target_only_where_it_must_be_treated(task, least, most):
    found = [scenario for scenario in train() if scenario.goal.task == task]
    lying = sum(
        any(
            thing.cls == scenario.goal.thing and scenario.receptacles[spot].cls == scenario.goal.target
            for thing in scenario.things
            for spot in thing.within
        )
        for scenario in found
    )
    assert least <= lying / len(found) <= most


# ---- difficulty -----------------------------------------------------------------------------------------------------


def test_mixed_draws_rungs_by_weight():
    drawn = Counter(rung_of(key("train", index), MIXED).name for index in range(MANY))
    weights = {name: made.weight for name, made in ladder().rungs.items()}
    assert sum(weights.values()) == 100
    assert distance(drawn, weights) <= 0.03
    assert (MIXED, *weights) == DIFFICULTIES
    index = next(index for index in range(99) if rung_of(key("train", index), MIXED).name == "hard")
    assert generate(key("train", index)) == generate(key("train", index), "hard")


def test_rungs_differ_in_size_and_doors():
    def mean(numbers: Iterable[float]) -> float:
        found = list(numbers)
        return sum(found) / len(found)

    receptacles = {name: mean(len(scenario.receptacles) for scenario in rung(name)) for name in RUNGS}
    objects = {name: mean(len(scenario.things) for scenario in rung(name)) for name in RUNGS}
    hidden = {name: mean(_is_hidden(scenario) for scenario in rung(name)) for name in RUNGS}
    serving = {name: mean(len(useful(scenario)) for scenario in rung(name)) for name in RUNGS}
    assert receptacles["easiest"] < receptacles["medium"] < receptacles["hardest"]
    assert objects["easiest"] <= objects["easy"] < objects["medium"] < objects["hard"]
    assert hidden["easiest"] <= 0.01
    assert hidden["medium"] < hidden["hard"] < 0.5 < hidden["hardest"]
    assert serving["easiest"] > serving["medium"] > serving["hardest"]


def test_traps_lie_on_the_upper_rungs_alone():
    def stuck(scenario: Scenario) -> int:
        same = [thing for thing in scenario.things if thing.cls == scenario.goal.thing]
        return sum("pickupable" not in thing.flags for thing in same)

    def blockers(scenario: Scenario) -> int:
        known = tables().accepts
        return sum(
            "pickupable" in thing.flags and thing.cls not in known and bool(thing.within) for thing in scenario.things
        )

    for name in RUNGS[:-1]:
        assert not any(stuck(scenario) or blockers(scenario) for scenario in rung(name))
    assert sum(map(bool, map(stuck, rung("hardest")))) > 200
    assert sum(map(bool, map(blockers, rung("hardest")))) > 100
    known = ladder().alike
    for name, wanted in (("hard", 1), ("hardest", 2)):
        lying = [
            ({thing.cls for thing in scenario.things if thing.within}, scenario.goal.thing) for scenario in rung(name)
        ]
        alike = [len(classes.intersection(known.get(thing, ()))) for classes, thing in lying]
        assert sum(count >= wanted for count in alike) > 0.8 * len(alike)


# ---- what is wrong is seen ------------------------------------------------------------------------------------------


def _put(scenario: Scenario, cls: str, **change: object) -> Scenario:
    """Return a scenario whose first object of a class that lies somewhere is changed."""
    position = next(n for n, thing in enumerate(scenario.things) if thing.cls == cls and thing.within)
    things = list(scenario.things)
    things[position] = replace(things[position], **change)  # type: ignore[arg-type]
    return replace(scenario, things=tuple(things))


def _task(name: str) -> Scenario:
    return next(scenario for scenario in rung("medium") if scenario.goal.task == name)


def test_faults_are_named():
    simple, look, heat = map(_task, ("pick_and_place_simple", "look_at_obj_in_light", "pick_heat_then_place_in_recep"))
    thing = simple.goal.thing
    target = next(n for n, item in enumerate(simple.receptacles) if item.cls == simple.goal.target)
    place = simple.receptacles[target].place
    wrong = {
        "is in a target already": _put(simple, thing, within=(target,), at=(place,)),
        "is in two places": _put(simple, thing, within=(0, 1), at=(0,)),
        "a receptacle is open": replace(
            heat, receptacles=tuple(replace(item, open=item.openable) for item in heat.receptacles)
        ),
        "is where the player starts": replace(heat, start=0),
        "there is no yacht": replace(simple, goal=replace(simple.goal, target="yacht")),
        "takes no": replace(simple, accepts=()),
        "0 objects can serve": replace(simple, goal=replace(simple.goal, thing="unicorn")),
        "there is no microwave": replace(
            heat, receptacles=tuple(replace(item, cls="shelf") for item in heat.receptacles)
        ),
        "no desklamp stands": replace(look, things=tuple(item for item in look.things if item.cls != "desklamp")),
        "a lamp is behind a door": replace(
            look, receptacles=tuple(replace(item, openable=True) for item in look.receptacles)
        ),
        "lamps of two classes": replace(look, goal=replace(look.goal, target="floorlamp")),
    }
    for words, scenario in wrong.items():
        assert any(words in fault for fault in faults(scenario)), (words, faults(scenario))
