"""Households without end: ``(key, difficulty, split) -> Scenario``, pure, from the counts of the field's rooms.

A goal is drawn as often as it is asked in the real games; then furniture for its kind of room, with the target in it
and a layout that belongs to the split; then the objects of the room, each where its class usually lies. What the real
games have in common (see :mod:`agentenvs_scenarios.household.invariants`) holds by construction, or the room is drawn
again; the goal stays, so that hard goals are not drawn less often. No rules are known here: whether a scenario can be
solved, and in how many steps, is for others to prove.

Each kind of choice has a stream of its own, derived from the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final

from agentenvs.core.errors import ContractError
from agentenvs.core.streams import Stream, derive
from agentenvs_scenarios.household import sentences
from agentenvs_scenarios.household.furnish import SHARES, Furniture, furnish
from agentenvs_scenarios.household.invariants import faults
from agentenvs_scenarios.household.ladder import MIXED, Difficulty, Rung, ladder, rung_of
from agentenvs_scenarios.household.model import Goal, Receptacle, Scenario, Thing
from agentenvs_scenarios.household.statistics import GOAL_MOST, Ask, RoomStatistics, statistics
from agentenvs_scenarios.household.tables import tables

SPLITS: Final = tuple(SHARES)
SEALED: Final = "sealed"
"""The split whose scenarios have no telling name."""

MOST_DRAFTS: Final = 100
"""Rooms drawn for one goal before something must be wrong; the first one nearly always does."""
TOGETHER: Final = 40
"""Percent chance that a goal object lies where the one before does, in tasks that only place (from 11 games)."""

_LOOK: Final = "look_at_obj_in_light"
_AWAY: Final = ("pick_and_place_simple", "pick_two_obj_and_place")
"""Tasks none of whose goal objects lies in a target at the start."""


def generate(key: bytes, difficulty: Difficulty = MIXED, split: str = "train") -> Scenario:
    """Return a scenario.

    Args:
        key: The scenario's key, 256 bits.
        difficulty: ``mixed``, or a rung of the ladder.
        split: The split whose layouts it may have.

    Raises:
        KeyError: There is no such rung or split.
        ContractError: No room in :data:`MOST_DRAFTS` was as it must be.
    """
    rung = rung_of(key, difficulty)
    known = statistics()
    choice = Stream(key, "goal")
    ask = choice.weighted(known.asks, known.ask_weights)
    variant = choice.below(2)
    for attempt in range(MOST_DRAFTS):
        drafted = _draft(derive(key, f"room/{attempt}"), ask, variant, rung, split)
        if drafted is not None and not faults(drafted):
            return drafted
    raise ContractError(f"no room for {ask} ({rung.name}, {split}) in {MOST_DRAFTS} drafts")


def _draft(key: bytes, ask: Ask, variant: int, rung: Rung, split: str) -> Scenario | None:
    """Return a scenario, or None where an object it needs has no place to lie."""
    room = statistics().rooms[ask.room]
    needed = "" if ask.task == _LOOK else ask.target
    furniture = furnish(Stream(key, "furniture"), room, needed, rung.style, split)
    things = _Filling(key, ask, rung, room, furniture).things()
    if things is None:
        return None
    return Scenario(
        name=SEALED if split == SEALED else "-".join((ask.room, ask.task, ask.thing, ask.target)),
        text_version="0.4",
        places=_place_names(furniture.places + 1),
        start=furniture.places,
        receptacles=furniture.receptacles,
        things=things,
        accepts=_accepts(furniture.receptacles, things),
        goal=Goal(ask.task, ask.thing, ask.target, sentences.write(ask.task, ask.thing, ask.target, variant)),
    )


class _Spots:
    """Where things may lie in a room: receptacles by class, all of them, those that open, and those that do not."""

    __slots__ = ("_all", "_open", "_rows", "_shut")

    def __init__(self, room: RoomStatistics, receptacles: Sequence[Receptacle]) -> None:
        self._rows = room.usual
        self._all: dict[str, list[int]] = {}
        self._open: dict[str, list[int]] = {}
        self._shut: dict[str, list[int]] = {}
        for index, item in enumerate(receptacles):
            self._all.setdefault(item.cls, []).append(index)
            (self._shut if item.openable else self._open).setdefault(item.cls, []).append(index)

    def draw(self, stream: Stream, cls: str) -> int | None:
        """Return a receptacle for an object of a class, as usual; None where there is none."""
        return self._draw(stream, cls, "", self._all)

    def draw_open(self, stream: Stream, cls: str, barred: str = "") -> int | None:
        """Like :meth:`draw`, of those that cannot be closed, and not of the class ``barred``."""
        return self._draw(stream, cls, barred, self._open)

    def draw_shut(self, stream: Stream, cls: str, barred: str = "") -> int | None:
        """Like :meth:`draw`, of those that are closed at the start, and not of the class ``barred``."""
        return self._draw(stream, cls, barred, self._shut)

    def draw_any(self, stream: Stream, cls: str, barred: str) -> int | None:
        """Like :meth:`draw`, but not of the class ``barred``, and where the class may be put if none is usual."""
        found = self._draw(stream, cls, barred, self._all)
        if found is not None:
            return found
        left = [item for item in tables().accepts.get(cls, ()) if item in self._all and item != barred]
        return stream.choice(self._all[stream.choice(left)]) if left else None

    def _draw(self, stream: Stream, cls: str, barred: str, pool: Mapping[str, list[int]]) -> int | None:
        row = [(item, weight) for item, weight in self._rows.get(cls, ()) if item in pool and item != barred]
        if not row:
            return None
        point = stream.below(sum(weight for _, weight in row))
        for item, weight in row:
            if point < weight:
                return stream.choice(pool[item])
            point -= weight
        return None


class _Filling:
    """The objects of a room, being drawn."""

    def __init__(self, key: bytes, ask: Ask, rung: Rung, room: RoomStatistics, furniture: Furniture) -> None:
        self._ask, self._rung, self._room = ask, rung, room
        self._receptacles = furniture.receptacles
        self._spots = _Spots(room, furniture.receptacles)
        self._counts = Stream(key, "counts")
        self._where = Stream(key, "where")
        self._goal = Stream(key, "goal objects")
        self._barred = ask.target if ask.task in _AWAY else ""
        self._alike = self._look_alikes(Stream(key, "look-alikes"))

    def things(self) -> tuple[Thing, ...] | None:
        """Return the objects in id order; None where a goal object or its lamp has no place."""
        made: list[Thing] = []
        for cls in self._room.objects:
            if cls == self._ask.thing:
                goal = self._goal_things()
                if goal is None:
                    return None
                made += goal
                continue
            count = self._count(cls)
            made += [self._thing(cls, count - position, self._spot(cls), _flags(cls)) for position in range(count)]
        if self._ask.task == _LOOK and not any(item.cls == self._ask.target and item.within for item in made):
            return None
        return tuple(made)

    def _look_alikes(self, stream: Stream) -> tuple[str, ...]:
        """Return classes easily taken for the goal's that must lie in the room."""
        known = ladder().alike.get(self._ask.thing, ())
        usual = [cls for cls in known if self._room.placed.get(cls, 0) and not _blocks(cls)]
        return tuple(stream.sample(usual, min(self._rung.alike, len(usual))))

    def _count(self, cls: str) -> int:
        counted, lean = self._room.objects[cls], self._rung.objects
        lamp = self._ask.task == _LOOK and cls == self._ask.target
        blocker = self._rung.blockers and _blocks(cls) and self._room.placed[cls] > 0
        if lamp or blocker:
            return counted.present.draw(self._counts)
        if cls in self._alike:
            return counted.present.draw(self._counts, lean)
        return counted.counts.draw(self._counts, lean)

    def _spot(self, cls: str) -> int | None:
        """Return where an object that is not the goal's lies; None for nowhere, as with much of the scenery."""
        if _blocks(cls):
            return self._spots.draw(self._where, cls) if self._rung.blockers else None
        placed = self._room.placed[cls]
        if placed < 100 and cls not in self._alike and not self._where.chance(placed, 100):
            return None
        return self._spots.draw(self._where, cls)

    def _goal_things(self) -> list[Thing] | None:
        cls, stream = self._ask.thing, self._goal
        count = statistics().instances[self._ask.task == "pick_two_obj_and_place"].draw(stream, self._rung.instances)
        useless = min(stream.between(1, self._rung.useless), GOAL_MOST - count) if self._rung.useless else 0
        spots = self._lay(count)
        if spots is None:
            return None
        lying: list[tuple[int, bool]] = [(spot, True) for spot in spots]
        for _ in range(useless):
            spot = self._spots.draw_any(stream, cls, self._ask.target)
            if spot is not None:
                lying.append((spot, False))
        stream.shuffle(lying)
        flags = _flags(cls)
        stuck = tuple(flag for flag in flags if flag != "pickupable")
        return [
            self._thing(cls, len(lying) - position, spot, flags if useful else stuck)
            for position, (spot, useful) in enumerate(lying)
        ]

    def _lay(self, count: int) -> list[int] | None:
        """Return where the goal objects lie; None where one has no place."""
        spots = [self._lay_one()]
        for _ in range(count - 1):
            together = self._ask.task in _AWAY and self._goal.chance(TOGETHER, 100)
            spots.append(spots[-1] if together else self._lay_one())
        if self._rung.goal == "some" and all(spot is not None and self._receptacles[spot].openable for spot in spots):
            spots[0] = self._or_any(self._spots.draw_open(self._goal, self._ask.thing, self._barred))
        found = [spot for spot in spots if spot is not None]
        return found if len(found) == count else None

    def _lay_one(self) -> int | None:
        cls, barred, goal = self._ask.thing, self._barred, self._rung.goal
        if goal == "open":
            return self._or_any(self._spots.draw_open(self._goal, cls, barred))
        if goal == "shut":
            return self._or_any(self._spots.draw_shut(self._goal, cls, barred))
        return self._or_any(None)

    def _or_any(self, spot: int | None) -> int | None:
        return self._spots.draw_any(self._goal, self._ask.thing, self._barred) if spot is None else spot

    def _thing(self, cls: str, number: int, spot: int | None, flags: tuple[str, ...]) -> Thing:
        name = f"{cls} {number}"
        if spot is None:
            return Thing(name, cls, flags)
        receptacle = self._receptacles[spot]
        chilled = receptacle.cls == "fridge" and cls == self._ask.thing and "coolable" in flags
        cold = chilled and self._ask.task != "pick_cool_then_place_in_recep"
        return Thing(name, cls, flags, (spot,), (receptacle.place,), ("cool",) if cold else ())


@cache
def _flags(cls: str) -> tuple[str, ...]:
    return tables().flags(cls)


def _blocks(cls: str) -> bool:
    """Whether an object of the class can be taken and put down nowhere."""
    return cls not in tables().accepts and "pickupable" in _flags(cls)


@lru_cache(maxsize=64)
def _place_names(count: int) -> tuple[str, ...]:
    return tuple(f"loc {number}" for number in range(count, 0, -1))


@lru_cache(maxsize=1)
def _taken_by() -> Mapping[str, tuple[str, ...]]:
    """Return which object classes each receptacle class takes, sorted."""
    taken: dict[str, list[str]] = {}
    for cls, receptacles in sorted(tables().accepts.items()):
        for item in receptacles:
            taken.setdefault(item, []).append(cls)
    return {item: tuple(classes) for item, classes in taken.items()}


def _accepts(receptacles: Iterable[Receptacle], things: Iterable[Thing]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    present = {thing.cls for thing in things}
    known = _taken_by()
    rows = (
        (cls, tuple(item for item in known.get(cls, ()) if item in present))
        for cls in dict.fromkeys(item.cls for item in receptacles)
    )
    return tuple(row for row in rows if row[1])
