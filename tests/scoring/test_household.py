"""The verdict follows from evidence alone, on every ending and at every turn, and agrees with the rules."""

import pytest

from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.verdict import ENDINGS
from agentenvs.envs.household.layout import PROFILES, Layout
from agentenvs.envs.household.outcome import outcome
from agentenvs.envs.household.prove import shortest
from agentenvs.envs.household.world import World
from agentenvs_scenarios.household.builtin import NAMES, builtin
from agentenvs_scoring.household import judge
from tests.envs.household.rooms import room, with_thing

SIMPLE = room(("pick_and_place_simple", "apple", "sidetable"))
LOOK = room(("look_at_obj_in_light", "book", "desklamp"))
HEAT = room(("pick_heat_then_place_in_recep", "apple", "sidetable"))
TWO = room(("pick_two_obj_and_place", "apple", "cabinet"))

LIT = [
    ["player", "at", "sidetable 1"],
    ["player", "holds", "book 1"],
    ["desklamp 1", "in", "sidetable 1"],
    ["desklamp 1", "is", "toggled"],
]


def verdict(scenario, evidence, ending="terminated", turns=7):
    return judge(scenario, {"turns": turns, "evidence": evidence}, ending)


@pytest.mark.parametrize(
    ("scenario", "evidence", "components"),
    [
        (SIMPLE, [["apple 1", "in", "sidetable 1"]], {"placed": 1.0}),
        (LOOK, LIT, {"held": 1.0, "lit": 1.0, "beside": 1.0}),
        (HEAT, [["apple 2", "in", "sidetable 1"], ["apple 2", "is", "hot"]], {"hot": 1.0, "placed": 1.0}),
        (
            TWO,
            [["apple 1", "in", "cabinet 2"], ["apple 2", "in", "cabinet 2"]],
            {"placed": 1.0, "placed_both": 1.0},
        ),
    ],
)
def test_a_goal_that_holds_pays_once_and_only_when_terminated(scenario, evidence, components):
    for ending in ENDINGS:
        found = verdict(scenario, evidence, ending)
        won = ending == "terminated"
        assert (found.reward, found.success) == (float(won), won)
        assert found.components == components
        assert found.facts == {"turns": 7, "evidence": evidence}
        assert won or found.reasons[-1] == f"the episode was {ending}, which earns nothing"
    untouched = verdict(scenario, evidence, turns=0)
    assert (untouched.reward, untouched.reasons[-1]) == (0.0, "nothing was done, which earns nothing")


@pytest.mark.parametrize(
    ("scenario", "evidence"),
    [
        (SIMPLE, []),
        (SIMPLE, [["bread 1", "in", "sidetable 1"]]),
        (SIMPLE, [["apple 1", "in", "cabinet 1"]]),
        (SIMPLE, [["apple 9", "in", "sidetable 1"]]),
        (SIMPLE, [["apple 1", "in", "sidetable 9"]]),
        (SIMPLE, [["apple 1", "at", "sidetable 1"]]),
        (LOOK, LIT[:1] + LIT[2:]),
        (LOOK, LIT[:3]),
        (LOOK, [["player", "at", "shelf 1"], *LIT[1:]]),
        (LOOK, [LIT[0], ["player", "holds", "vase 1"], *LIT[2:]]),
        (HEAT, [["apple 1", "in", "sidetable 1"], ["apple 2", "is", "hot"]]),
        (HEAT, [["apple 1", "in", "sidetable 1"], ["apple 1", "is", "cool"]]),
        (HEAT, [["apple 1", "is", "hot"]]),
        (TWO, [["apple 1", "in", "cabinet 1"], ["apple 2", "in", "cabinet 2"]]),
        (TWO, [["apple 1", "in", "cabinet 1"], ["apple 1", "in", "cabinet 1"]]),
        (TWO, [["apple 1", "in", "cabinet 1"], ["egg 1", "in", "cabinet 1"]]),
        (
            with_thing(HEAT, "apple 1", flags=("pickupable",)),
            [["apple 1", "in", "sidetable 1"], ["apple 1", "is", "hot"]],
        ),
    ],
)
def test_less_than_the_goal_earns_nothing(scenario, evidence):
    assert (verdict(scenario, evidence).reward, verdict(scenario, evidence).success) == (0.0, False)


def test_parts_are_reported_and_say_what_is_missing():
    found = verdict(HEAT, [["apple 1", "in", "sidetable 1"], ["apple 2", "is", "hot"]])
    assert found.components == {"hot": 1.0, "placed": 1.0}
    assert found.reasons == (
        "yes: a goal object is hot",
        "yes: a goal object is in a target receptacle",
        "no: it is one and the same object",
    )
    assert verdict(TWO, [["apple 1", "in", "cabinet 1"]]).components == {"placed": 1.0, "placed_both": 0.0}


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"turns": None, "evidence": None},
        {"turns": True, "evidence": [["apple 1", "in", "sidetable 1"]]},
        {"turns": 3, "evidence": "apple 1 in sidetable 1"},
        {"turns": 3, "evidence": [["apple 1", "in"], "xyz", 7, None, [["apple 1"], "in", "sidetable 1"], {"a": "b"}]},
        {"turns": 3, "success": True, "reward": 1.0},
    ],
)
def test_facts_of_any_form_get_a_verdict_and_no_reward(facts):
    for ending in ENDINGS:
        assert judge(SIMPLE, facts, ending).reward == 0.0


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("index", range(len(NAMES)), ids=NAMES)
def test_verdict_agrees_with_the_rules_on_the_way_to_the_goal_and_beyond(index, profile):
    state = World(Layout(builtin(index), profile))
    stream = Stream(scenario_key("household", "test", index), "mixed")
    wins = 0
    for turn in range(1, 121):
        plan = shortest(state) or ()
        if plan and stream.chance(1, 2):
            state.apply(plan[0])
        else:
            state.step(stream.choice(state.admissible()))
        facts = outcome(state, turn)
        assert judge(builtin(index), facts, "terminated").success == state.won
        assert judge(builtin(index), facts, "truncated").reward == 0.0
        wins += state.won
    assert wins > 0
