"""Score cards: what a run is measured against, as data, one TOML file an environment.

A card says when a player passes, what the oracle must reach, and what anchor policies reached where. A number holds
for the panel it was measured on, named by a digest, and for the options beside it; on another panel it says nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from agentenvs.core.canon import JSON, digest
from agentenvs.core.errors import ContractError, DataError


@dataclass(frozen=True, slots=True)
class Band:
    """What an anchor policy reached on a panel, and how far a measurement may be from it."""

    player: str
    split: str
    panel: str
    """Digest of the scenarios: the split's own where it has one, else :func:`panel_of` them."""
    episodes: int
    limit: int
    success: float
    """Measured success rate."""
    steps: float
    """Measured mean turns of all episodes, lost ones included."""
    success_band: tuple[float, float]
    steps_band: tuple[float, float]
    options: Mapping[str, JSON] = field(default_factory=dict)
    """Options other than ``limit`` that were not the default."""

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
class Card:
    """A score card."""

    env: str
    release: str
    """Release of rules and words the numbers were measured with."""
    passing: Mapping[str, float]
    """What a run must reach to pass: ``success_rate`` at least, ``invalid_rate`` at most."""
    oracle: Mapping[str, float]
    """What the oracle must reach on every panel: ``success_rate`` at least, ``turns_over_par`` at most."""
    bands: tuple[Band, ...]

    def passes(self, summary: Mapping[str, JSON]) -> bool:
        """Return whether the summary of a run reaches the pass thresholds."""
        return bool(
            summary["success_rate"] >= self.passing["success_rate"]
            and summary["invalid_rate"] <= self.passing["invalid_rate"]
        )


def panel_of(scenarios: Iterable[str]) -> str:
    """Return the digest of a panel from the digests of its scenarios, in order."""
    return digest(list(scenarios))


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
        bands = tuple(_band(band) for band in form["bands"])
        return Card(form["env"], form["release"], dict(form["pass"]), dict(form["oracle"]), bands)
    except (KeyError, TypeError, ValueError) as error:
        raise ContractError(f"the score card of {slug} is malformed", why=repr(error)) from error


def _band(form: Mapping[str, Any]) -> Band:
    low, high = form["success_band"]
    least, most = form["steps_band"]
    return Band(**{**form, "success_band": (low, high), "steps_band": (least, most)})
