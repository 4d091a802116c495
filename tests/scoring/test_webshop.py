"""What a purchase is worth: exactly graded, by the original's formula, and by nonsense facts."""

from dataclasses import replace
from itertools import product as combinations

import pytest

from agentenvs.core.streams import scenario_key
from agentenvs.envs.webshop.propose import propose
from agentenvs.envs.webshop.prove import chosen_for, prove
from agentenvs_scenarios.webshop.generate import generate
from agentenvs_scenarios.webshop.generated import GeneratedShop
from agentenvs_scenarios.webshop.ladder import RUNGS
from agentenvs_scenarios.webshop.model import Scenario
from agentenvs_scoring.fuzzy import token_set_ratio
from agentenvs_scoring.webshop import judge
from agentenvs_scoring.webshop_formula import COLOURS

SHOP = GeneratedShop(0, 2000)


def scenario(rung, index):
    return generate(SHOP, scenario_key("webshop", "train", index), rung, "train")


def bought(found, chosen):
    return {"product": found.id, "options": dict(chosen)}


def gold(made):
    products = [SHOP.product(SHOP.index(want.product)) for want in made.goal.wants]
    return [bought(product, dict(want.options)) for product, want in zip(products, made.goal.wants, strict=True)]


@pytest.mark.parametrize("rung", RUNGS)
def test_the_own_gold_always_earns_everything(rung):
    for index in range(40):
        made = scenario(rung, index)
        verdict = judge(made, {"turns": 5, "bought": gold(made)}, "terminated")
        assert (verdict.reward, verdict.success) == (1.0, True), made.goal
        assert set(verdict.components.values()) == {1.0}


@pytest.mark.parametrize("rung", ["constraints", "synonyms", "comparisons"])
def test_a_wrong_option_never_earns_everything(rung):
    tried = 0
    for index in range(40):
        made = scenario(rung, index)
        want = made.goal.wants[0]
        product = SHOP.product(SHOP.index(want.product))
        for at, (name, value) in enumerate(want.options):
            group = next(group for group in product.options if group.name == name)
            for other in group.values:
                if other != value:
                    chosen = dict([*want.options[:at], (name, other), *want.options[at + 1 :]])
                    facts = {"turns": 5, "bought": [bought(product, chosen)]}
                    assert judge(made, facts, "terminated").reward < 1.0
                    tried += 1
    assert tried > 50


@pytest.mark.parametrize("rung", ["constraints", "comparisons"])
def test_the_proven_set_is_all_that_earns_everything(rung):
    """Every product of the kind, with every combination of what is to be had, against the proof."""
    for index in range(6):
        made = scenario(rung, index)
        want = made.goal.wants[0]
        right = set()
        for found in SHOP.kin(want.query, want.path):
            values = [
                [(group.name, value) for value, pieces in zip(group.values, group.stock, strict=True) if pieces]
                for group in found.options
            ]
            for chosen in combinations(*([None, *row] for row in values)):
                facts = {"turns": 5, "bought": [bought(found, [pair for pair in chosen if pair])]}
                if judge(made, facts, "terminated").reward == 1.0:
                    right.add(found.id)
        assert right == set(prove(made).satisfying[0])
        assert want.product in right


def test_every_goal_has_near_misses_and_a_proof():
    for rung in RUNGS:
        for index in range(25):
            made = propose(SHOP, scenario_key("webshop", "train", index), "train", rung)
            assert made.proof.holds
            assert all(
                want.product in found
                for want, found in zip(made.scenario.goal.wants, made.proof.satisfying, strict=True)
            )


def test_two_things_are_shared_out_as_suits_best_and_have_one_budget():
    made = scenario("baskets", 0)
    first, second = gold(made)
    for order in ([first, second], [second, first]):
        assert judge(made, {"turns": 9, "bought": order}, "terminated").reward == 1.0
    half = judge(made, {"turns": 9, "bought": [first]}, "terminated")
    assert 0.0 < half.reward <= 0.5
    poor = replace(made, goal=replace(made.goal, budget=1))
    assert judge(poor, {"turns": 9, "bought": [first, second]}, "terminated").components["price"] == 0.0


def test_cheapest_means_no_product_is_cheaper():
    made = scenario("comparisons", 1)
    want = made.goal.wants[0]
    for found in SHOP.kin(want.query, want.path):
        chosen = chosen_for(found, want)
        if judge(made, {"turns": 1, "bought": [bought(found, chosen)]}, "terminated").reward == 1.0:
            assert found.price(chosen)[1] == want.bound


@pytest.mark.parametrize("ending", ["truncated", "abandoned", "aborted"])
def test_only_what_terminated_earns(ending):
    made = scenario("constraints", 0)
    verdict = judge(made, {"turns": 20, "bought": gold(made)}, ending)
    assert (verdict.reward, verdict.success) == (0.0, False)
    assert verdict.reasons == (f"the episode was {ending}, which earns nothing",)


@pytest.mark.parametrize(
    "facts",
    [{}, {"bought": None}, {"bought": 7}, {"bought": [1, {}, {"product": []}, {"product": "x", "options": []}]}],
)
def test_nonsense_facts_get_a_verdict(facts):
    assert judge(scenario("baskets", 1), facts, "terminated").reward == 0.0


def test_the_formula_lets_pass_what_the_original_lets_pass():
    made = scenario("constraints", 3)
    want = replace(made.goal.wants[0], options=(("size", "xx-large tall"),), bound=10**8)
    product = SHOP.product(SHOP.index(want.product))
    fuzzy = Scenario("x", SHOP, replace(made.goal, wants=(want,)), "formula")
    facts = {"turns": 1, "bought": [{"product": product.id, "options": {"size": "large"}}]}
    assert judge(fuzzy, facts, "terminated").reward == 1.0
    assert len(COLOURS) == 102


@pytest.mark.parametrize(
    ("one", "other", "likeness"),
    [
        ("", "x", 0),
        ("a b", "b a", 100),
        ("large", "x-large", 100),
        ("blue", "red", 29),
        ("grey stone", "gray stone", 90),
    ],
)
def test_likeness(one, other, likeness):
    assert token_set_ratio(one, other) == likeness


def test_likeness_is_that_of_thefuzz():
    fuzz = pytest.importorskip("thefuzz.fuzz", reason="thefuzz is not installed (extra webshop-original)")
    words = [
        "machine wash",
        "x-large",
        "('size', '28\" x 28\"')",
        "navy | red",
        "1 ft 9 in",
        "Ünïcode",
        "long sleeve",
        "",
    ]
    for one, other in combinations(words, words):
        assert token_set_ratio(one, other) == fuzz.token_set_ratio(one, other)
