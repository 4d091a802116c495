"""Score cards: anchors play what they played when the card was written, on the panels that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentenvs.core import registry, targets
from agentenvs.core.errors import ContractError, DataError
from agentenvs.harness.calibrate import measure, moved, rows
from agentenvs.harness.calibrate.card import keep, sees, splits_of
from agentenvs.harness.calibrate.plan import QUICK_EPISODES
from agentenvs_scoring import cards

SLUGS = ("household", "webshop", "searchworld")


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("AGENTENVS_CACHE", str(tmp_path_factory.getbasetemp() / "universes"))


def _moved(
    slug: str, *, data: str | None = None, only: tuple[str, ...] = (), episodes: int | None = None
) -> list[object]:
    spec, card = registry.spec(slug), cards.load(slug)
    planned = rows(spec, splits_of(spec, data), card, only=only, episodes=episodes, data=data is not None)
    return list(moved(card, measure(slug, planned, data=data), spec))


@pytest.mark.parametrize("slug", SLUGS)
def test_nothing_has_moved_since_the_card_was_written(slug: str) -> None:
    assert _moved(slug, episodes=QUICK_EPISODES) == [], f"agentenvs calibrate {slug} --check says more"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("slug", SLUGS)
def test_whole_panels_are_what_the_card_says(slug: str) -> None:
    assert _moved(slug) == []


def test_handed_games_are_what_the_card_says(shared_data: Path) -> None:
    splits = ("valid_seen", "valid_train")
    assert _moved("household", data=str(shared_data / "household"), only=splits) == []


@pytest.mark.parametrize("slug", SLUGS)
def test_a_card_is_of_this_release_and_knows_every_player(slug: str) -> None:
    spec, card = registry.spec(slug), cards.load(slug)
    assert (card.env, card.release) == (spec.id, spec.release)
    assert {band.player for band in card.bands} == set(spec.players)
    assert len({band.place for band in card.bands}) == len(card.bands)
    for band in card.bands:
        assert band.misses(band.success, band.steps) == []
        assert band.success == round(band.won / band.episodes, 4)


@pytest.mark.parametrize("slug", SLUGS)
def test_every_player_is_measured_on_every_split_that_can_be_played(slug: str) -> None:
    spec, card = registry.spec(slug), cards.load(slug)
    measured = {(band.player, band.split) for band in card.bands}
    open_splits = [split.name for split in spec.splits if not split.sealed]
    assert {(player, split) for player in spec.players for split in open_splits} <= measured


@pytest.mark.parametrize("slug", SLUGS)
def test_the_oracle_reaches_its_floor_and_doing_nothing_wins_nothing(slug: str) -> None:
    card = cards.load(slug)
    for band in card.bands:
        if band.player == "oracle":
            assert band.success >= card.oracle["success_rate"]
        if band.player == "noop":
            assert band.won == 0


@pytest.mark.parametrize("slug", SLUGS)
def test_a_world_is_marked_where_its_best_player_wins_nearly_always(slug: str) -> None:
    spec, card = registry.spec(slug), cards.load(slug)
    plain = [player for player in spec.players if not sees(spec, player)[0]]
    usual = [row for row in card.saturated if not row.options]
    for split in {band.split for band in card.bands}:
        best = max(
            (
                band.success
                for band in card.bands
                if band.split == split and band.player in plain and _usual(band, spec)
            ),
            default=0.0,
        )
        assert [row.success for row in usual if row.split == split] == ([best] if best > cards.SATURATED else [])


def _usual(band: cards.Band, spec: object) -> bool:
    wanted = sees(targets.spec_of(spec.slug), band.player)[1]  # type: ignore[attr-defined]
    limit = next(option.default for option in spec.options if option.name == "limit")  # type: ignore[attr-defined]
    return not set(band.options) - set(wanted) and band.limit == limit


def test_a_measurement_outside_a_band_is_named() -> None:
    band = next(band for band in cards.load("household").bands if band.player == "noop" and band.split == "builtin")
    assert band.misses(0.5, 50.0) == ["noop on builtin: success rate 0.5 is not in 0 .. 0.2425"]
    assert band.misses(0.0, 49.0) == ["noop on builtin: mean steps 49 is not in 50 .. 50"]


@pytest.mark.parametrize(("success", "invalid", "passes"), [(0.9, 0.1, True), (0.89, 0.0, False), (1.0, 0.2, False)])
def test_passing(success: float, invalid: float, passes: bool) -> None:
    assert cards.load("household").passes({"success_rate": success, "invalid_rate": invalid}) == passes


def test_a_missing_and_a_malformed_card() -> None:
    with pytest.raises(DataError, match="no score card of 'nowhere'"):
        cards.load("nowhere")
    for text in ("", "env = 'x'", "env = 'x'\nrelease = '0'\n[[bands]]\nplayer = 'x'", "not toml ="):
        with pytest.raises(ContractError, match="score card of here is malformed"):
            cards.parse(text, "here")
    assert keep(registry.spec("household"), {}).card == cards.load("household")
