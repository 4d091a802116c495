"""Tables of the field: what may be put where, what objects can do, where they lie at the start (``tables.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Final, Literal, TypeAlias, get_args

from agentenvs_scenarios.household.model import FLAGS

Room: TypeAlias = Literal["kitchen", "livingroom", "bedroom", "bathroom"]
ROOMS: Final[tuple[Room, ...]] = get_args(Room)


class Tables:
    """The tables, read once.

    Attributes:
        accepts: Object class -> receptacle classes it may be put in or on; a class without a row fits nowhere.
        openable: Receptacle classes that can be opened, as a rule; some cabinets and drawers cannot.
        placements: Room -> object class -> receptacle class -> percent of its initial placements there.
    """

    __slots__ = ("_classes", "accepts", "openable", "placements")

    def __init__(self) -> None:
        text = resources.files("agentenvs_scenarios.household").joinpath("tables.toml").read_text("utf-8")
        form = tomllib.loads(text)
        self.accepts: Mapping[str, tuple[str, ...]] = {cls: tuple(row) for cls, row in form["accepts"].items()}
        self.openable = tuple(form["flags"]["openable"])
        self.placements: Mapping[Room, Mapping[str, Mapping[str, int]]] = form["placements"]
        self._classes: Mapping[str, list[str]] = form["flags"]

    def flags(self, cls: str) -> tuple[str, ...]:
        """Return the abilities of an object class, in the order of ``FLAGS``."""
        return tuple(flag for flag in FLAGS if self._has(cls, flag))

    def _has(self, cls: str, flag: str) -> bool:
        return cls not in self._classes["fixed"] if flag == "pickupable" else cls in self._classes[flag]


@lru_cache(maxsize=1)
def tables() -> Tables:
    """Return the tables."""
    return Tables()
