"""Counts of the field's rooms as something to draw from (``statistics.toml``): receptacles, objects, goals.

A count is known by three numbers: how often a class is there at all, its mean where it is, and its most. It is drawn
as one more than a binomial whose chance is itself uniform over most of the width the mean allows: real rooms differ
more from each other than coins do. The weights are whole numbers, so that no platform rounds them its own way.
"""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from itertools import accumulate
from math import comb
from typing import Any, Final, NamedTuple

from agentenvs.core.streams import Stream
from agentenvs_scenarios.household.model import TaskType
from agentenvs_scenarios.household.tables import ROOMS, Room, tables

_BITS: Final = 24
_PARTS: Final = 16
_POINTS: Final = 9
"""Chances of the binomial that are mixed."""
_COMMON_MOST: Final = 3
"""Most objects of a class that is not the goal's; the goal's own has up to :data:`GOAL_MOST`."""
GOAL_MOST: Final = 4


class Counts:
    """A distribution over 0, 1, 2 … to draw from.

    Args:
        weights: Weight of each number, as integers.
    """

    __slots__ = ("_bounds", "_sure")

    def __init__(self, weights: Sequence[int]) -> None:
        total = sum(weights)
        # The last bound is never met, so that a draw is below it whatever was rounded away.
        self._bounds = [(part << _BITS) // total for part in accumulate(weights)][:-1]
        self._sure = next((n for n, weight in enumerate(weights) if weight == total), None)

    def draw(self, stream: Stream, lean: int = 0) -> int:
        """Return a number.

        Args:
            stream: Where to draw from.
            lean: -1 takes the lesser of two draws, 1 the greater.
        """
        if self._sure is not None:
            return self._sure
        first = bisect_right(self._bounds, stream.bits(_BITS))
        if not lean:
            return first
        second = bisect_right(self._bounds, stream.bits(_BITS))
        return min(first, second) if lean < 0 else max(first, second)


class Class(NamedTuple):
    """How many of a class there are in a room."""

    counts: Counts
    """Zero included."""
    present: Counts
    """Where there is at least one."""


class Ask(NamedTuple):
    """A goal to draw."""

    task: TaskType
    room: Room
    thing: str
    target: str


class RoomStatistics(NamedTuple):
    """What there is in one kind of room, classes in alphabetical order."""

    sizes: range
    """Numbers of receptacles that were seen."""
    receptacles: Mapping[str, Class]
    objects: Mapping[str, Class]
    openable: Mapping[str, int]
    """Percent of each openable class that can be opened."""
    together: Mapping[str, int]
    """Percent chance that neighbours of a class stand at one place."""
    placed: Mapping[str, int]
    """Percent of each class that lies in a receptacle at all."""
    usual: Mapping[str, tuple[tuple[str, int], ...]]
    """Where objects of each class lie: receptacle classes and weights, for a room that has them."""


class Statistics:
    """Everything to draw from, read once.

    Attributes:
        rooms: What there is in each kind of room.
        instances: Number of goal objects, by whether the task wants two.
        asks: Goals, most frequent first, and with them...
        ask_weights: ... how often each was asked.
    """

    __slots__ = ("ask_weights", "asks", "instances", "rooms")

    def __init__(self) -> None:
        text = resources.files("agentenvs_scenarios.household").joinpath("statistics.toml").read_text("utf-8")
        form = tomllib.loads(text)
        self.rooms: Mapping[Room, RoomStatistics] = {room: _room(form, room) for room in ROOMS}
        self.instances = {two: Counts([0, *form["instances"]["two" if two else "one"]]) for two in (False, True)}
        asks = [
            (count, Ask(task, room, thing, target))
            for task, by_room in form["goals"].items()
            for room, by_thing in by_room.items()
            for thing, by_target in by_thing.items()
            for target, count in by_target.items()
        ]
        asks.sort(key=lambda row: (-row[0], row[1]))
        self.asks = tuple(ask for _, ask in asks)
        self.ask_weights = tuple(count for count, _ in asks)


@lru_cache(maxsize=1)
def statistics() -> Statistics:
    """Return the statistics."""
    return Statistics()


def _room(form: Mapping[str, Any], room: Room) -> RoomStatistics:
    known = tables()
    of, fewest, most = form["rooms"][room]
    openable = form["openable"][room]
    placed = form["placed"][room]
    receptacles, objects = form["receptacles"][room], form["objects"][room]
    return RoomStatistics(
        sizes=range(fewest, most + 1),
        receptacles={cls: _class(of, *receptacles[cls]) for cls in sorted(receptacles)},
        objects={cls: _class(100, *_without_goal(cls, *objects[cls])) for cls in sorted(objects)},
        openable={cls: openable.get(cls, 100) for cls in sorted(receptacles) if cls in known.openable},
        together=form["together"][room],
        placed={cls: placed.get(cls, 100) if cls in known.placements[room] else 0 for cls in sorted(objects)},
        usual={
            cls: _usual(row, known.accepts.get(cls), receptacles, of) for cls, row in known.placements[room].items()
        },
    )


def _usual(
    row: Mapping[str, int], accepted: Iterable[str] | None, receptacles: Mapping[str, Sequence[int]], of: int
) -> tuple[tuple[str, int], ...]:
    """Return where a class lies in a room that has everything.

    The table counts all rooms, so what few rooms have weighs more where it is: by the rooms that lack it.

    Args:
        row: Percent by receptacle class, over all rooms.
        accepted: Receptacle classes the object may be put in; None where it cannot be moved.
        receptacles: Rows of the kind of room.
        of: Rooms counted.
    """
    return tuple(
        (cls, percent * _PARTS * of // receptacles[cls][0])
        for cls, percent in row.items()
        if cls in receptacles and (accepted is None or cls in accepted)
    )


def _without_goal(cls: str, often: int, tenths: int, most: int) -> tuple[int, int, int]:
    """Return a row without the games whose goal wanted one more of the class."""
    common = most == GOAL_MOST and cls in tables().accepts and tenths <= 10 * _COMMON_MOST
    return often, tenths, _COMMON_MOST if common else most


def _class(of: int, often: int, tenths: int, most: int) -> Class:
    present = [0, *_spread(tenths, most)]
    total = sum(present)
    absent = total * (of - often)
    return Class(Counts([absent, *(often * weight for weight in present[1:])]), Counts(present))


def _spread(tenths: int, most: int) -> list[int]:
    """Return weights of 1 … ``most`` with mean ``tenths / 10``: binomials of several chances, mixed evenly."""
    if most == 1:
        return [1]
    trials = most - 1
    # Chances are counted in 1 / (10 * trials * (points - 1)).
    whole = 10 * trials * (_POINTS - 1)
    centre = (tenths - 10) * (_POINTS - 1)
    width = min(centre, whole - centre) * 3 // 4
    weights = [0] * most
    for point in range(_POINTS):
        chance = centre - width + 2 * width * point // (_POINTS - 1)
        for count in range(most):
            weights[count] += comb(trials, count) * chance**count * (whole - chance) ** (trials - count)
    return weights
