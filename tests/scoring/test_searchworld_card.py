"""Anchor policies stay in the bands of the score card, on the panels the bands were measured on."""

from functools import cache

import pytest

from agentenvs.core import registry
from agentenvs.core.policy import Privileged
from agentenvs.core.task import TaskRef
from agentenvs_scoring import cards
from agentenvs_scoring.cards import Band

CARD = cards.load("searchworld")
QUICK = [band for band in CARD.bands if band.options == {"people": "500"}]


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("AGENTENVS_CACHE", str(tmp_path_factory.getbasetemp() / "searchworld"))


@cache
def panel(split: str, **options: str | int) -> str:
    env = registry.make("searchworld", **options)
    return cards.panel_of(env.scenario(split, index).digest for index in range(env.splits()[split].size))


def measure(band: Band):
    env = registry.make("searchworld", limit=band.limit, **band.options)
    turns = pars = won = 0
    for index in range(band.episodes):
        observation = env.reset(TaskRef(band.split, index))
        policy = registry.load(env.spec.players[band.player])()
        policy.reset(env.spec, env.task())
        if isinstance(policy, Privileged):
            policy.reveal(env.current)
        while env.ending is None:
            observation = env.step(policy.act(observation)).observation
        turns += env.turn
        pars += env.labels()["par"]
        won += env.verdict.success
    return won / band.episodes, turns / band.episodes, turns / pars


def check(band: Band) -> None:
    assert panel(band.split, **band.options) == band.panel
    success, steps, over = measure(band)
    assert band.misses(success, steps) == []
    if band.player == "oracle":
        assert success >= CARD.oracle["success_rate"]
        assert over <= CARD.oracle["turns_over_par"]
    elif band.player != "expert" and band.options.get("difficulty") != "easiest":
        assert success <= 0.05


def ids(band: Band) -> str:
    return "-".join((band.player, *map(str, band.options.values())))


@pytest.mark.parametrize("band", QUICK, ids=ids)
def test_bands_of_small_universes(band):
    check(band)


@pytest.mark.slow
@pytest.mark.parametrize("band", [band for band in CARD.bands if band not in QUICK], ids=ids)
def test_bands_of_every_rung_and_of_usual_universes(band):
    check(band)


def test_the_card_is_of_this_release_and_knows_every_player():
    spec = registry.spec("searchworld")
    assert (CARD.env, CARD.release) == (spec.id, spec.release)
    assert {band.player for band in CARD.bands} == set(spec.players)
    for band in CARD.bands:
        assert band.misses(band.success, band.steps) == []
