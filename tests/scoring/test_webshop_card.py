"""Anchor policies stay in the bands of the score card, on the panels the bands were measured on."""

from functools import cache

import pytest

from agentenvs.core import registry
from agentenvs.core.policy import Privileged
from agentenvs.core.task import TaskRef
from agentenvs_scoring import cards

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
