"""Anchor policies stay in the bands of the score card, on the panels the bands were measured on."""

from functools import cache
from pathlib import Path

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import ContractError, DataError
from agentenvs.core.policy import Privileged
from agentenvs.core.task import TaskRef
from agentenvs.envs.household.prove import par
from agentenvs_scoring import cards
from agentenvs_scoring.cards import Band

CARD = cards.load("household")
OURS = ("builtin", "dev", "test")


def measure(env, band: Band):
    """Play a band's policy over its split; return success rate, mean steps and steps over par."""
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
        pars += par(env.world.layout)
        won += env.verdict.success
    return won / band.episodes, turns / band.episodes, turns / pars


@cache
def ours(split: str, difficulty: str) -> str:
    env = registry.make("household", difficulty=difficulty)
    return cards.panel_of(env.scenario(split, index).digest for index in range(env.splits()[split].size))


def panel(env, split):
    if split in OURS:
        return ours(split, env.options["difficulty"])
    return env.splits()[split].panel


def check(band: Band, **options):
    env = registry.make("household", limit=band.limit, **band.options, **options)
    if panel(env, band.split) != band.panel:
        pytest.skip(f"the games of {band.split} at hand are not those the band was measured on")
    success, steps, over = measure(env, band)
    assert band.misses(success, steps) == []
    assert success == pytest.approx(band.success, abs=0.1)
    if band.player == "oracle":
        assert success >= CARD.oracle["success_rate"]
        assert over <= CARD.oracle["turns_over_par"]


def ids(band: Band) -> str:
    return "-".join((band.split, band.player, str(band.limit), *(str(value) for value in band.options.values())))


@pytest.mark.parametrize("band", [band for band in CARD.bands if band.split in OURS], ids=ids)
def test_bands_on_our_own_rooms(band):
    check(band)


@pytest.mark.parametrize("band", [band for band in CARD.bands if band.split not in OURS], ids=ids)
def test_bands_on_handed_games(band, shared_data: Path):
    check(band, data=str(shared_data / "household"))


@pytest.mark.parametrize("band", [band for band in CARD.bands if band.split in OURS], ids=ids)
def test_our_own_panels_are_those_that_were_measured(band):
    env = registry.make("household", **band.options)
    assert band.panel == panel(env, band.split)
    assert band.episodes == env.splits()[band.split].size


def test_the_card_is_of_this_release_and_knows_every_player():
    spec = registry.spec("household")
    assert (CARD.env, CARD.release) == (spec.id, spec.release)
    assert {band.player for band in CARD.bands} == set(spec.players)
    for band in CARD.bands:
        assert band.misses(band.success, band.steps) == []


def test_a_measurement_outside_a_band_is_named():
    band = next(band for band in CARD.bands if band.player == "noop")
    assert band.misses(0.5, 50.0) == ["noop on builtin: success rate 0.5 is not in 0 .. 0"]
    assert band.misses(0.0, 49.0) == ["noop on builtin: mean steps 49 is not in 50 .. 50"]


@pytest.mark.parametrize(("success", "invalid", "passes"), [(0.9, 0.1, True), (0.89, 0.0, False), (1.0, 0.2, False)])
def test_passing(success, invalid, passes):
    assert CARD.passes({"success_rate": success, "invalid_rate": invalid}) == passes


def test_a_missing_and_a_malformed_card():
    with pytest.raises(DataError, match="no score card of 'nowhere'"):
        cards.load("nowhere")
    for text in ("", "env = 'x'", "[[bands]]\nplayer = 'x'", "not toml ="):
        with pytest.raises(ContractError, match="score card of here is malformed"):
            cards.parse(text, "here")
