"""Score cards: what a run is measured against, as data, one TOML file an environment.

A card says when a player passes, what the oracle must reach, and what anchor policies reached where. A number holds for
the panel it was measured on, named by a digest, and for the options beside it; on another panel it says nothing. The
head of a card is written by hand; what stands below :data:`MARK` is written by ``agentenvs calibrate``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentenvs.core.canon import JSON, digest
from agentenvs.core.errors import ContractError, DataError

MARK = "# Measured: written by `agentenvs calibrate`. Change what is above, and measure again."
"""The line above everything that was measured."""

SATURATED = 0.9
"""Success rate above which a world tells good players no longer apart."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What is measured: each player on each split, with each choice of options."""

    players: tuple[str, ...]
    splits: Mapping[str, int]
    """Episodes of each split, from index 0 on."""
    options: Mapping[str, JSON] = field(default_factory=dict)
    """A list stands for each of its items in turn."""
    data: bool = False
    """Whether the splits come from the field's own files, which must be at hand."""


@dataclass(frozen=True, slots=True)
class Band:
    """What an anchor policy reached on a panel, and how far a measurement of the same world may be from it."""

    player: str
    split: str
    panel: str
    """Digest of the scenarios: the split's own where it has one, else :func:`panel_of` them."""
    episodes: int
    limit: int | None
    """Most turns, where the environment has such an option."""
    won: int
    success: float
    """Measured success rate."""
    steps: float
    """Measured mean turns of all episodes, lost ones included."""
    reward: float
    """Measured mean reward."""
    success_band: tuple[float, float]
    """Wilson, 95 %."""
    steps_band: tuple[float, float]
    """Mean and 1.96 standard errors."""
    outcomes: str
    """Digest of every episode's scenario, ending, success, reward and turns: moves when anything moves."""
    quick: int
    """Episodes at the start of the panel that are played to see soon whether something moved."""
    quick_outcomes: str
    """Digest of theirs."""
    options: Mapping[str, JSON] = field(default_factory=dict)
    """Options other than ``limit`` that were not the default."""

    @property
    def place(self) -> tuple[str, str, int | None, int, str]:
        """What was measured, whatever came out."""
        return self.player, self.split, self.limit, self.episodes, digest(dict(self.options))

    def misses(self, success: float, steps: float) -> list[str]:
        """Return in words what of a measurement lies outside the band; empty where nothing does."""
        return [
            f"{self.player} on {self.split}: {what} {value:.4g} is not in {low:g} .. {high:g}"
            for what, value, (low, high) in (
                ("success rate", success, self.success_band),
                ("mean steps", steps, self.steps_band),
            )
            if not low <= value <= high
        ]


@dataclass(frozen=True, slots=True)
class ModelRow:
    """What a model, or another player from outside, reached on a panel."""

    name: str
    protocol: str | None
    """Digest of how it was asked."""
    split: str
    panel: str
    episodes: int
    limit: int | None
    won: int
    success: float
    steps: float
    reward: float
    success_band: tuple[float, float]
    steps_band: tuple[float, float]
    run: str
    """Id of the run."""
    table: str
    """Digest of its episodes."""
    options: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Saturated:
    """Where the best player that sees no more than others wins more than 90 %."""

    split: str
    best: str
    success: float
    low: float
    """Lower end of its interval: where that is below 0.9 too, more episodes are needed to be sure."""
    options: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Card:
    """A score card."""

    env: str
    release: str
    """Release of rules and words the numbers were measured with."""
    passing: Mapping[str, float]
    """What a run must reach to pass: ``success_rate`` at least, ``invalid_rate`` at most; empty where nobody says."""
    oracle: Mapping[str, float]
    """What the oracle must reach on every panel: ``success_rate`` at least, ``turns_over_par`` at most."""
    bands: tuple[Band, ...] = ()
    models: tuple[ModelRow, ...] = ()
    """Empty until a model was measured."""
    saturated: tuple[Saturated, ...] = ()
    measure: tuple[Measure, ...] = ()
    """What is measured; what every environment is measured by where empty."""

    def passes(self, summary: Mapping[str, JSON]) -> bool:
        """Return whether the summary of a run reaches the pass thresholds."""
        return bool(
            summary["success_rate"] >= self.passing["success_rate"]
            and summary["invalid_rate"] <= self.passing["invalid_rate"]
        )


def panel_of(scenarios: Iterable[str]) -> str:
    """Return the digest of a panel from the digests of its scenarios, in order."""
    return digest(list(scenarios))


def path_of(slug: str) -> Path:
    """Return where the card of an environment of the suite is, or would be."""
    return Path(str(files(__name__).joinpath(f"{slug}.toml")))


def load(slug: str) -> Card:
    """Return the score card of an environment.

    Raises:
        DataError: It has none.
        ContractError: The card is malformed.
    """
    file = files(__name__).joinpath(f"{slug}.toml")
    if not file.is_file():
        raise DataError(f"there is no score card of {slug!r}", fix="give the slug of an environment of the suite")
    return parse(file.read_text("utf-8"), slug)


def parse(text: str, slug: str) -> Card:
    """Return the card that a TOML text holds.

    Raises:
        ContractError: It holds none.
    """
    try:
        form = tomllib.loads(text)
        return Card(
            form["env"],
            form["release"],
            dict(form.get("pass", {})),
            dict(form.get("oracle", {})),
            tuple(Band(**_banded(band)) for band in form.get("bands", ())),
            tuple(ModelRow(**_banded({"protocol": None, **row})) for row in form.get("models", ())),
            tuple(Saturated(**row) for row in form.get("saturated", ())),
            tuple(Measure(**{**row, "players": tuple(row["players"])}) for row in form.get("measure", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ContractError(f"the score card of {slug} is malformed", why=repr(error)) from error


def _banded(form: Mapping[str, Any]) -> dict[str, Any]:
    low, high = form["success_band"]
    least, most = form["steps_band"]
    return {"limit": None, **form, "success_band": (low, high), "steps_band": (least, most)}
