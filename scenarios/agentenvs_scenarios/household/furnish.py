"""Furniture: which receptacles a room has, which of them open, and which stand together.

A *layout* is just that, without what lies in it. Its digest says which split it belongs to, so that no room of one
split is ever seen in another; whoever wants furniture for a split draws until the digest falls there, before a single
object is placed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple, TypeAlias

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

_Row: TypeAlias = tuple[str, bool, int]
"""Name, whether it opens, and place."""


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
        counts = {
            cls: (counted.present if cls == needed else counted.counts).draw(stream, style.lean)
            for cls, counted in room.receptacles.items()
        }
        if sum(counts.values()) not in room.sizes:
            continue
        rows = _arrange(stream, room, counts, style)
        found = _digest(rows)
        if split_of(found) == split:
            receptacles = tuple(Receptacle(name, name.split()[0], place, openable) for name, openable, place in rows)
            return Furniture(receptacles, 1 + max(place for _, _, place in rows), found)
    raise ContractError(f"no furniture of the split {split!r} in {MOST_DRAWS} draws")


def _arrange(stream: Stream, room: RoomStatistics, counts: Mapping[str, int], style: Style) -> list[_Row]:
    """Return the receptacles in id order: which open, and where they stand."""
    rows: list[_Row] = []
    first: dict[str, int] = {}
    taken = 0
    for cls, count in counts.items():
        if not count:
            continue
        opens = min(room.openable.get(cls, 0) * style.openable // 100, 100)
        openable = [opens == 100] * count if opens in (0, 100) else [_chance(stream, opens) for _ in range(count)]
        places = _places(stream, count, _STRIDES.get(cls, 1), room.together.get(cls, 0), taken)
        rows += zip(_names(cls, count), openable, places, strict=True)
        first[cls] = places[-1]
        taken = max(taken, max(places) + 1)
    return _move_beside(stream, room, rows, first)


@cache
def _names(cls: str, count: int) -> tuple[str, ...]:
    return tuple(f"{cls} {number}" for number in range(count, 0, -1))


def _places(stream: Stream, count: int, stride: int, percent: int, taken: int) -> list[int]:
    """Return where receptacles of a class stand, by descending number; at most two of them together.

    Args:
        stream: Where to draw from.
        count: How many there are.
        stride: Difference in number of those that may stand together.
        percent: Chance that two of them do.
        taken: Places that others stand at.
    """
    if not percent:
        return list(range(taken, taken + count))
    places: list[int] = []
    paired: set[int] = set()
    for position in range(count):
        partner = position - stride
        if partner >= 0 and partner not in paired and _chance(stream, percent):
            paired.update((position, partner))
            places.append(places[partner])
        else:
            places.append(taken)
            taken += 1
    return places


def _move_beside(stream: Stream, room: RoomStatistics, rows: list[_Row], first: Mapping[str, int]) -> list[_Row]:
    """Let some receptacles stand with the first of another class, and number the places anew."""
    moved = {
        first[cls]: first[other]
        for cls, other in _BESIDE.items()
        if cls in first and other in first and _chance(stream, room.together.get(cls, 0))
    }
    if not moved:
        return rows
    places: dict[int, int] = {}
    return [(name, openable, places.setdefault(moved.get(place, place), len(places))) for name, openable, place in rows]


def _chance(stream: Stream, percent: int) -> bool:
    """Return True with so many percent, to 2**-16; cheaper than an exact draw, and there are many."""
    if percent in (0, 100):
        return percent == 100
    return stream.bits(16) * 100 < percent << 16


def _digest(rows: Iterable[_Row]) -> str:
    text = "".join([f"{name}:{openable:d}:{place}\n" for name, openable, place in rows])
    return hashlib.sha256(f"agentenvs/household/layout/1\n{text}".encode()).hexdigest()
