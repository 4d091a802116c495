"""The difficulty ladder: what is asked on each rung, and how often a rung is drawn (``catalogue.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from agentenvs.core.streams import Stream

MIXED: Final = "mixed"
RUNGS: Final = ("constraints", "synonyms", "comparisons", "baskets")
DIFFICULTIES: Final = (MIXED, *RUNGS)


@dataclass(frozen=True, slots=True)
class Rung:
    """One rung."""

    name: str
    weight: int
    """Out of the sum of all: how often ``mixed`` draws it."""
    attributes: tuple[int, int]
    """Least and most attributes a want names."""
    paraphrase: bool
    """Whether attributes and kinds are asked for in other words."""
    cheapest: bool
    """Whether the lowest price is asked for instead of a bound."""
    wants: int


@cache
def catalogue() -> Mapping[str, Any]:
    """Return ``catalogue.toml``."""
    return tomllib.loads(resources.files(__package__).joinpath("catalogue.toml").read_text("utf-8"))


@cache
def ladder() -> Mapping[str, Rung]:
    """Return the rungs by name."""
    return {
        name: Rung(
            name,
            row["weight"],
            (row["attributes"][0], row["attributes"][1]),
            row["paraphrase"],
            row["cheapest"],
            row["wants"],
        )
        for name, row in catalogue()["difficulty"].items()
    }


def rung_of(key: bytes, difficulty: str) -> Rung:
    """Return the rung of a scenario: the one asked for, or one drawn for its key.

    Raises:
        KeyError: There is no such rung.
    """
    rungs = ladder()
    if difficulty != MIXED:
        return rungs[difficulty]
    names = list(rungs)
    return rungs[Stream(key, "rung").weighted(names, [rungs[name].weight for name in names])]
