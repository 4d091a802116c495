"""The oracle reaches its floor on every scenario, and what a sentence says betrays no more than it should."""

import pytest

from agentenvs.core import registry
from agentenvs.core.task import TaskRef
from agentenvs.envs.webshop.propose import proposal
from agentenvs.envs.webshop.prove import title_query
from agentenvs.envs.webshop.shops import generated_shop, search_of
from agentenvs_scoring.webshop import judge


@pytest.mark.parametrize("profile", ["compat", "native", "original"])
def test_the_oracle_reaches_its_floor_on_every_scenario_of_every_finite_split(profile, monkeypatch):
    monkeypatch.setenv("AGENTENVS_SEALED_SECRET", "0123456789abcdef" * 4)
    env = registry.make("webshop", profile=profile)
    oracle = registry.load(env.spec.players["oracle"])()
    for split in ("dev", "test", "sealed"):
        for index in range(env.splits()[split].size):
            observation = env.reset(TaskRef(split, index))
            oracle.reset(env.spec, env.task())
            oracle.reveal(env.current)
            while env.ending is None:
                observation = env.step(oracle.act(observation)).observation
            assert (env.verdict.reward, env.turn) == (1.0, env.labels()["par"]), (split, index)


def test_a_bound_betrays_no_more_than_what_it_forbids():
    """Buying the first hit whose price is just below the bound wins little more than buying the first that is below."""
    shop = generated_shop(0, 10_000)
    search, won = search_of(shop), {"below": 0, "just below": 0}
    for index in range(200):
        made = proposal(shop, "dev", index, "constraints").scenario
        want = made.goal.wants[0]
        priced = [
            (product, exact(product, want)) for product in map(shop.product, search(title_query(made.goal.sentence)))
        ]
        for rule, least in (("below", 0), ("just below", want.bound - 99)):
            bought = next((product for product, price in priced if least <= price <= want.bound), None)
            facts = {"bought": [{"product": bought.id, "options": dict(want.options)}]} if bought else {}
            won[rule] += judge(made, facts, "terminated").success
    assert won["just below"] <= won["below"] + 10


def exact(product, want):
    return product.price(dict(want.options))[1]
