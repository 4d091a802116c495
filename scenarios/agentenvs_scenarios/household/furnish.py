"""Furniture: which receptacles a room has, which of them open, and which stand together.

A *layout* is just that, without what lies in it. Its digest says which split it belongs to, so that no room of one
split is ever seen in another; whoever wants furniture for a split draws until the digest falls there, before a single
object is placed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from agentenvs.core.errors import ContractError
from agentenvs.core.streams import Stream
from agentenvs_scenarios.household.model import Receptacle
from agentenvs_scenarios.household.statistics import RoomStatistics

SHARES: Final[Mapping[str, int]] = {"train": 13, "dev": 1, "test": 1, "sealed": 1}
"""Sixteenths of all layouts that belong to each generated split."""
MOST_DRAWS: Final = 2000
"""Draws for one split before something must be wrong: a split of one sixteenth is missed so often once in 10**56."""

_OWNERS: Final = tuple(split for split, share in SHARES.items() for _ in range(share))
_STRIDES: Final = {"stoveburner": 2}
"""Neighbours of a class differ by this in number; by 1 where nothing is said."""
_BESIDE: Final = {"coffeemachine": "countertop"}
"""Classes that stand with the first of another class, not with their own."""


class Style(NamedTuple):
    """How a room is furnished, apart from the counts."""

    lean: int = 0
    """-1 for few receptacles, 1 for many."""
    openable: int = 100
    """Percent of the counted share of receptacles that open."""


class Furniture(NamedTuple):
    """The receptacles of a room in id order, and the digest of the layout."""

    receptacles: tuple[Receptacle, ...]
    places: int
    """Number of places; the last receptacle's place is below it."""
    digest: str


def split_of(layout_digest: str) -> str:
    """Return the generated split that a layout belongs to."""
    return _OWNERS[int(layout_digest[:8], 16) % len(_OWNERS)]


def layout_digest(receptacles: Iterable[Receptacle]) -> str:
    """Return the digest of a layout, wherever it comes from; how its places are numbered makes no difference."""
    places: dict[int, int] = {}
    return _digest((item.name, item.openable, places.setdefault(item.place, len(places))) for item in receptacles)


def furnish(stream: Stream, room: RoomStatistics, needed: str, style: Style, split: str) -> Furniture:
    """Draw furniture whose layout belongs to a split.

    Args:
        stream: Where to draw from.
        room: Counts of the kind of room.
        needed: A receptacle class that must be there; empty where none must.
        style: How to furnish.
        split: One of :data:`SHARES`.

    Raises:
        ContractError: No draw fell into the split.
    """
    for _ in range(MOST_DRAWS):
        rows = _draw(stream, room, needed, style)
        found = _digest((f"{cls} {number}", openable, place) for cls, number, openable, place in rows)
        if split_of(found) == split:
            receptacles = tuple(
                Receptacle(f"{cls} {number}", cls, place, openable) for cls, number, openable, place in rows
            )
            return Furniture(receptacles, 1 + max(row[3] for row in rows), found)
    raise ContractError(f"no furniture of the split {split!r} in {MOST_DRAWS} draws")


def _draw(stream: Stream, room: RoomStatistics, needed: str, style: Style) -> list[tuple[str, int, bool, int]]:
    """Return class, number, whether it opens, and place, in id order."""
    rows: list[tuple[str, int, bool, int]] = []
    first: dict[str, int] = {}
    places = 0
    for cls, counted in room.receptacles.items():
        counts = counted.present if cls == needed else counted.counts
        count = counts.draw(stream, style.lean)
        opens = min(room.openable.get(cls, 0) * style.openable // 100, 100)
        stride, chance = _STRIDES.get(cls, 1), room.together.get(cls, 0)
        own: dict[int, int] = {}
        for number in range(count, 0, -1):
            partner = number + stride
            if partner in own and own[partner] >= 0 and _chance(stream, chance):
                place, own[number], own[partner] = own[partner], -1, -1
            else:
                place, own[number], places = places, places, places + 1
            rows.append((cls, number, _chance(stream, opens), place))
            if number == 1:
                first[cls] = place
    return _move_beside(stream, room, rows, first)


def _move_beside(
    stream: Stream, room: RoomStatistics, rows: list[tuple[str, int, bool, int]], first: Mapping[str, int]
) -> list[tuple[str, int, bool, int]]:
    """Let some receptacles stand with the first of another class, and number the places anew."""
    moved = {
        first[cls]: first[other]
        for cls, other in _BESIDE.items()
        if cls in first and other in first and _chance(stream, room.together.get(cls, 0))
    }
    if not moved:
        return rows
    places: dict[int, int] = {}
    return [
        (cls, number, openable, places.setdefault(moved.get(place, place), len(places)))
        for cls, number, openable, place in rows
    ]


def _chance(stream: Stream, percent: int) -> bool:
    if percent in (0, 100):
        return percent == 100
    return stream.chance(percent, 100)


def _digest(rows: Iterable[tuple[str, bool, int]]) -> str:
    text = "".join(f"{name}:{openable:d}:{place}\n" for name, openable, place in rows)
    return hashlib.sha256(f"agentenvs/household/layout/1\n{text}".encode()).hexdigest()
