"""Anchor policies stay in the bands of the score card, on the panels the bands were measured on."""

from functools import cache

import pytest

from agentenvs.core import registry
from agentenvs.core.policy import Privileged
from agentenvs.core.task import TaskRef
from agentenvs.envs.webshop.propose import proposal
from agentenvs.envs.webshop.prove import title_query
from agentenvs.envs.webshop.shops import generated_shop, search_of
from agentenvs_scoring import cards
from agentenvs_scoring.webshop import judge

CARD = cards.load("webshop")
PART = 100
"""Episodes of each band that are played here; the whole of it by hand, when the card is written."""


@cache
def panel(split, episodes):
    env = registry.make("webshop")
    return cards.panel_of(env.scenario(split, index).digest for index in range(episodes))


def measure(band, episodes):
    env = registry.make("webshop", limit=band.limit, **band.options)
    won = 0
    for index in range(episodes):
        observation = env.reset(TaskRef(band.split, index))
        policy = registry.load(env.spec.players[band.player])()
        policy.reset(env.spec, env.task())
        if isinstance(policy, Privileged):
            policy.reveal(env.current)
        while env.ending is None:
            observation = env.step(policy.act(observation)).observation
        won += env.verdict.success
        if band.player == "oracle":
            assert env.turn == env.labels()["par"]
    return won / episodes


def ids(band):
    return "-".join((band.split, band.player, *(str(value) for value in band.options.values())))


@pytest.mark.parametrize("band", CARD.bands, ids=ids)
def test_bands(band):
    assert band.panel == panel(band.split, band.episodes)
    found = measure(band, PART)
    if band.player in ("oracle", "noop"):
        assert found == band.success
    else:
        assert found == pytest.approx(band.success, abs=0.1)


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


@pytest.mark.slow
@pytest.mark.parametrize("band", CARD.bands, ids=ids)
def test_bands_in_full(band):
    low, high = band.success_band
    assert low <= measure(band, band.episodes) <= high


def test_the_card_is_of_this_release_and_knows_every_player():
    spec = registry.spec("webshop")
    assert (CARD.env, CARD.release) == (spec.id, spec.release)
    assert {band.player for band in CARD.bands} == set(spec.players)
    for band in CARD.bands:
        assert band.misses(band.success, band.steps) == []
        assert band.player != "shopper" or band.success < 0.6
