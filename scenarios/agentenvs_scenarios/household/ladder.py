"""The difficulty ladder: what each rung changes in a room, as the catalogue says (``catalogue.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Final, Literal, NamedTuple, TypeAlias

from agentenvs.core.streams import Stream
from agentenvs_scenarios.household.furnish import Style

Difficulty: TypeAlias = str

MIXED: Final = "mixed"
RUNGS: Final = ("easiest", "easy", "medium", "hard", "hardest")
DIFFICULTIES: Final = (MIXED, *RUNGS)


class Rung(NamedTuple):
    """One rung; the catalogue says what each field means."""

    name: str
    weight: int
    furniture: int
    objects: int
    openable: int
    goal: Literal["open", "some", "any", "shut"]
    instances: int
    alike: int
    useless: int
    blockers: bool

    @property
    def style(self) -> Style:
        """How rooms of this rung are furnished."""
        return Style(self.furniture, self.openable)


class Ladder(NamedTuple):
    """All rungs, and which classes are easily taken for another."""

    rungs: Mapping[str, Rung]
    alike: Mapping[str, tuple[str, ...]]


@lru_cache(maxsize=1)
def ladder() -> Ladder:
    """Return the ladder."""
    text = resources.files("agentenvs_scenarios.household").joinpath("catalogue.toml").read_text("utf-8")
    form = tomllib.loads(text)
    alike: dict[str, tuple[str, ...]] = {}
    for group in form["alike"]["groups"]:
        for cls in group:
            others = {*alike.get(cls, ()), *group} - {cls}
            alike[cls] = tuple(sorted(others))
    return Ladder({name: Rung(name, **form["difficulty"][name]) for name in RUNGS}, alike)


def rung_of(key: bytes, difficulty: Difficulty) -> Rung:
    """Return the rung of a scenario: the named one, or one that ``mixed`` draws from the scenario's key.

    Raises:
        KeyError: There is no such rung.
    """
    rungs = ladder().rungs
    if difficulty != MIXED:
        return rungs[difficulty]
    every = tuple(rungs.values())
    return Stream(key, "difficulty").weighted(every, [rung.weight for rung in every])
