"""What a step observed, used and wrote, as facts; computed from its event, when somebody asks.

A fact is ``(entity, relation, value)``:

* ``("player", "at", "fridge 1")``, one for each receptacle at the player's place;
* ``("player", "holds", "apple 1")``, or ``nothing``;
* ``("apple 1", "in", "fridge 1")``, for *on* too, or in ``hand``;
* ``("fridge 1", "contains", "nothing")``, where an empty one was seen;
* ``("fridge 1", "is", "open")`` or ``closed``, of what can be opened; ``("apple 1", "is", "clean")``, likewise ``hot``,
  ``cool``, ``sliced``, ``toggled``, or ``plain`` for none of these;
* ``("fridge 1", "in", "room")``, from the room sentence.

``used`` are the preconditions that held; ``observed`` is what the reply tells, which includes what was written. An
invalid step has none. :class:`Seen` folds events, in order, into the turn at which each fact was first observed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from agentenvs.core.trace import Fact
from agentenvs.core.turn import TraceParts
from agentenvs.envs.household.actions import CLEAN_WITH, COOL_WITH, HEAT_WITH, MOVE, TAKE, USE, command_text
from agentenvs.envs.household.layout import CLEAN, CONTAINER, COOL, HOT, STATE_BITS, WANTED, Layout
from agentenvs.envs.household.rules import Event

Triple: TypeAlias = tuple[str, str, str]

_EMPTY_HAND: Final = ("player", "holds", "nothing")


def opening_facts(layout: Layout) -> list[Triple]:
    """Return what the first observation tells: the receptacles of the room."""
    return [(name, "in", "room") for name in layout.receptacles]


def observed(layout: Layout, event: Event) -> list[Triple]:
    """Return what the reply to an event tells."""
    return [] if event[3] is not None else _OBSERVED[event[0]](layout, event)


def used(layout: Layout, event: Event) -> list[Triple]:
    """Return the preconditions of what was done."""
    return [] if event[3] is not None else _USED[event[0]](layout, event)


def written(layout: Layout, event: Event) -> list[Triple]:
    """Return what an event made so."""
    return [] if event[3] is not None else _WRITTEN[event[0]](layout, event)


def milestones(layout: Layout, event: Event) -> tuple[str, ...]:
    """Return the steps towards the goal that an event is: a goal object taken, treated or placed, the lamp lit."""
    operation, first, second, error, _ = event
    if error is not None or first < 0:
        return ()
    if operation == USE:
        return ("lit",) if layout.look and first in layout.targets else ()
    if operation not in _MILESTONES or not layout.flags[first] & WANTED:
        return ()
    if operation == MOVE and (layout.look or second not in layout.targets):
        return ()
    return (_MILESTONES[operation],) if operation in (TAKE, MOVE) or _TREATED[operation] == layout.ask else ()


class Seen:
    """When each fact was first observed, over the events of one episode.

    Args:
        layout: The scenario.

    Attributes:
        events: The events so far, one a turn; whoever steps the world appends to it.
    """

    __slots__ = ("_first", "_folded", "_layout", "events")

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._first: dict[Triple, int] | None = None
        self._folded = 0
        self.events: list[Event] = []

    def fork(self) -> Seen:
        """Return an independent copy."""
        twin = Seen(self._layout)
        twin._first = None if self._first is None else self._first.copy()
        twin._folded = self._folded
        twin.events = self.events[:]
        return twin

    def first(self, fact: Triple) -> int | None:
        """Return the turn at which a fact was first observed, 0 for the first observation; None if never."""
        return self._fold().get(fact)

    def last(self) -> TraceParts:
        """Return the facts and milestones of the last event; empty before the first."""
        if not self.events:
            return TraceParts()
        layout, event = self._layout, self.events[-1]
        first = self._fold()
        return TraceParts(
            tuple([Fact(*fact, first[fact]) for fact in observed(layout, event)]),
            tuple([Fact(*fact, first.get(fact)) for fact in used(layout, event)]),
            tuple([Fact(*fact, first.get(fact)) for fact in written(layout, event)]),
            milestones(layout, event),
            None if event[3] is not None else command_text(layout, event[:3]),
        )

    def _fold(self) -> dict[Triple, int]:
        first = self._first
        if first is None:
            first = self._first = dict.fromkeys(opening_facts(self._layout), 0)
        events = self.events
        for turn in range(self._folded + 1, len(events) + 1):
            for fact in observed(self._layout, events[turn - 1]):
                first.setdefault(fact, turn)
        self._folded = len(events)
        return first


def _at(layout: Layout, receptacle: int) -> Triple:
    return "player", "at", layout.receptacles[receptacle]


def _holds(layout: Layout, thing: int) -> Triple:
    return ("player", "holds", layout.things[thing]) if thing >= 0 else _EMPTY_HAND


def _within(layout: Layout, thing: int, receptacle: int) -> Triple:
    return layout.things[thing], "in", layout.receptacles[receptacle]


def _reach(layout: Layout, receptacle: int) -> list[Triple]:
    """What it takes to reach into a receptacle: being there, and it being open if it can be closed."""
    reach = [_at(layout, receptacle)]
    if layout.openable[receptacle]:
        reach.append((layout.receptacles[receptacle], "is", "open"))
    return reach


def _places(layout: Layout, receptacle: int) -> list[Triple]:
    return [_at(layout, item) for item in layout.here[layout.place_of[receptacle]]]


def _see(layout: Layout, event: Event) -> list[Triple]:
    """What a description of a receptacle tells."""
    _, receptacle, _, _, shown = event
    name = layout.receptacles[receptacle]
    if shown is None:
        return [(name, "is", "closed")]
    facts = [(name, "is", "open")] if layout.openable[receptacle] else []
    if not shown:
        facts.append((name, "contains", "nothing"))
    things = layout.things
    facts += [(things[thing], "in", name) for thing in shown]
    return facts


def _states(layout: Layout, event: Event) -> list[Triple]:
    """What ``examine`` tells of the object in the hand; a container shows its contents and hides its state."""
    _, thing, _, _, shown = event
    name = layout.things[thing]
    if layout.flags[thing] & CONTAINER:
        inside = layout.scenario.things[thing].contents
        return [(layout.things[item], "in", name) for item in inside] or [(name, "contains", "nothing")]
    bits = shown[0] if shown else 0
    return [(name, "is", word) for word, bit in STATE_BITS.items() if bits & bit] or [(name, "is", "plain")]


def _facing(layout: Layout, event: Event) -> list[Triple]:
    return [_at(layout, receptacle) for receptacle in layout.here[event[1]]]


def _none(_: Layout, __: Event) -> list[Triple]:
    return []


def _write_take(layout: Layout, event: Event) -> list[Triple]:
    return [_holds(layout, event[1]), (layout.things[event[1]], "in", "hand")]


def _write_move(layout: Layout, event: Event) -> list[Triple]:
    return [_EMPTY_HAND, _within(layout, event[1], event[2])]


def _write_state(word: str) -> Facts:
    return lambda layout, event: [(layout.things[event[1]], "is", word)]


def _use_take(layout: Layout, event: Event) -> list[Triple]:
    return [_EMPTY_HAND, _within(layout, event[1], event[2]), *_reach(layout, event[2])]


def _use_move(layout: Layout, event: Event) -> list[Triple]:
    return [_holds(layout, event[1]), *_reach(layout, event[2])]


def _use_treat(layout: Layout, event: Event) -> list[Triple]:
    return [_holds(layout, event[1]), _at(layout, event[2])]


def _use_lamp(layout: Layout, event: Event) -> list[Triple]:
    return [_within(layout, event[1], event[2]), _at(layout, event[2])]


def _use_slice(layout: Layout, event: Event) -> list[Triple]:
    facts = [_holds(layout, event[2])]
    for receptacle in event[4] or ():  # the original reaches into what is closed
        facts.append(_within(layout, event[1], receptacle))
        facts += _reach(layout, receptacle) if layout.compat else [_at(layout, receptacle)]
    return facts


Facts: TypeAlias = Callable[[Layout, Event], list[Triple]]

_CLEANED, _HEATED, _COOLED, _TOGGLED, _SLICED = map(_write_state, ("clean", "hot", "cool", "toggled", "sliced"))

# By operation number: none, go, open, close, take, move, clean, heat, cool, use, slice, examine, inspect, look,
# inventory, help.
_WRITTEN: Final[tuple[Facts, ...]] = (
    _none,
    lambda layout, event: _places(layout, event[1]),
    lambda layout, event: [(layout.receptacles[event[1]], "is", "open")],
    lambda layout, event: [(layout.receptacles[event[1]], "is", "closed")],
    _write_take,
    _write_move,
    _CLEANED,
    _HEATED,
    _COOLED,
    _TOGGLED,
    _SLICED,
    _none,
    _none,
    _none,
    _none,
    _none,
)
_USED: Final[tuple[Facts, ...]] = (
    _none,
    _none,
    lambda layout, event: [_at(layout, event[1]), (layout.receptacles[event[1]], "is", "closed")],
    lambda layout, event: _reach(layout, event[1]),
    _use_take,
    _use_move,
    _use_treat,
    _use_treat,
    _use_treat,
    _use_lamp,
    _use_slice,
    lambda layout, event: [_at(layout, event[1])],
    lambda layout, event: [_holds(layout, event[1])],
    _none,
    _none,
    _none,
)
_OBSERVED: Final[tuple[Facts, ...]] = (
    _none,
    lambda layout, event: [_at(layout, event[1]), *_see(layout, event)],
    _see,
    *_WRITTEN[3:11],
    _see,
    _states,
    _facing,
    lambda layout, event: [_holds(layout, event[1])],
    _none,
)
_MILESTONES: Final = {TAKE: "taken", MOVE: "placed", CLEAN_WITH: "cleaned", HEAT_WITH: "heated", COOL_WITH: "cooled"}
_TREATED: Final = {CLEAN_WITH: CLEAN, HEAT_WITH: HOT, COOL_WITH: COOL}
