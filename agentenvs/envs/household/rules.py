"""What an action does to the world: state transitions, and no words.

Every operation is a function ``(state, first, second) -> Event``. An event is a plain tuple, all that is needed to put
the step into words, or later into facts: ``(operation, first, second, error, shown)``. ``error`` is None for what was
done; an event with an error has changed nothing. ``shown`` is what the reply shows:

* objects in the receptacle, for ``go``, ``open`` and ``examine``; None where it is closed;
* the objects "next to it", for ``look``, whose ``first`` is the place;
* the states of the object as ``(bits,)``, for ``inspect``;
* else None, but for ``slice``: the receptacle the object was sliced in, if any; the reply does not name it.

``inventory`` has the object in the hand (or -1) as ``first``; ``use`` the receptacle of the lamp as ``second``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from agentenvs.envs.household.actions import (
    CLEAN_WITH,
    CLOSE,
    COOL_WITH,
    EXAMINE,
    GO,
    HEAT_WITH,
    HELP,
    INSPECT,
    INVENTORY,
    LOOK,
    MOVE,
    NONE,
    OPEN,
    SLICE,
    TAKE,
    UNKNOWN_COMMAND,
    USE,
)
from agentenvs.envs.household.layout import (
    CLEAN,
    CLEANABLE,
    COOL,
    COOLABLE,
    HEATABLE,
    HOT,
    PICKUPABLE,
    PRIME,
    SLICEABLE,
    SLICED,
    TOGGLEABLE,
    TOGGLED,
    WANTED,
    Layout,
)

Event: TypeAlias = "tuple[int, int, int, str | None, tuple[int, ...] | None]"

Offer: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""What the words keep of a place: the commands it offers an empty hand, in two parts."""

ALREADY_THERE: Final = "already_there"
NOT_HERE: Final = "not_here"
NOT_OPENABLE: Final = "not_openable"
ALREADY_OPEN: Final = "already_open"
ALREADY_CLOSED: Final = "already_closed"
CLOSED: Final = "closed"
HAND_FULL: Final = "hand_full"
NOT_HELD: Final = "not_held"
NOT_IN: Final = "not_in"
"""The object is not in or on that receptacle."""
FIXED: Final = "not_pickupable"
CANNOT_CONTAIN: Final = "cannot_contain"
WRONG_APPLIANCE: Final = "wrong_appliance"
NOT_ABLE: Final = "not_able"
"""The object cannot be cleaned, heated, cooled, sliced or used."""
NO_KNIFE: Final = "no_knife"


class State:
    """One moment of a world.

    Lists and byte strings belong to the state and change in place; the tuples in them are replaced, never changed, so a
    fork copies the lists alone.
    """

    __slots__ = (
        "at",
        "contents",
        "gone",
        "held",
        "key",
        "layout",
        "offers",
        "place",
        "shut",
        "states",
        "views",
        "within",
        "won",
    )

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.place = layout.start
        self.held = -1
        """Index of the object in the hand, or -1."""
        self.shut = bytearray(layout.shut)
        """1 where a receptacle is closed."""
        self.states = bytearray(layout.states)
        """State bits of each object."""
        self.within = list(layout.within)
        """Receptacles each object is in, ascending."""
        self.at = list(layout.at)
        """Places each object is at, ascending."""
        self.gone: dict[int, tuple[int, ...]] = {}
        """Object -> receptacles sharing a place that it was taken from and is not in now; ``look`` tells."""
        self.contents = list(layout.contents)
        """Objects in each receptacle, ascending."""
        self.won = is_won(self)
        """Whether the goal holds in this state."""
        if not layout.initial_key:
            layout.initial_key = state_key(self)
        self.key = layout.initial_key
        """Key of the state, below 2**128: equal states have equal keys."""
        # What the words keep of a receptacle and of a place; dropped here where it no longer holds.
        self.views: list[str | None] = [None] * len(layout.receptacles)
        self.offers: list[Offer | None] = [None] * len(layout.here)

    def forget(self, receptacle: int) -> None:
        """Drop what the words keep of a receptacle that has changed."""
        self.views[receptacle] = None
        self.offers[self.layout.place_of[receptacle]] = None


def state_key(state: State) -> int:
    """Return the key of a state, computed from scratch."""
    layout = state.layout
    keys = layout.keys
    total = keys.place[state.place]
    for receptacle, key in enumerate(keys.open):
        if layout.openable[receptacle] and not state.shut[receptacle]:
            total += key
    for thing, key in enumerate(keys.thing):
        value = keys.state[state.states[thing]]
        value += sum(keys.inside[receptacle] for receptacle in state.within[thing])
        value += sum(keys.at[place] for place in state.at[thing])
        value += sum(keys.gone[receptacle] for receptacle in state.gone.get(thing, ()))
        total += key * (value + (keys.hand if thing == state.held else 0))
    return total % PRIME


def is_won(state: State) -> bool:
    """Return whether the goal holds in a state, computed from scratch."""
    layout = state.layout
    if layout.look:
        return state.held in layout.wanted and any(_is_lit(state, lamp) for lamp in layout.targets)
    if layout.two:
        wanted = set(layout.wanted)
        return any(len(wanted.intersection(state.contents[receptacle])) >= 2 for receptacle in layout.targets)
    targets, ask = layout.targets, layout.ask
    for thing in layout.wanted:
        if state.states[thing] & ask == ask:
            for receptacle in state.within[thing]:
                if receptacle in targets:
                    return True
    return False


def _is_lit(state: State, lamp: int) -> bool:
    """Whether a lamp was ever turned on and is in a receptacle at the player's place."""
    place_of = state.layout.place_of
    return state.states[lamp] & TOGGLED != 0 and any(
        place_of[receptacle] == state.place for receptacle in state.within[lamp]
    )


def _go(state: State, receptacle: int, _: int) -> Event:
    layout = state.layout
    place = layout.place_of[receptacle]
    if place == state.place:
        return GO, receptacle, -1, ALREADY_THERE, None
    keys = layout.keys.place
    state.key = (state.key + keys[place] - keys[state.place]) % PRIME
    state.place = place
    if layout.look:
        state.won = is_won(state)
    return GO, receptacle, -1, None, None if state.shut[receptacle] else state.contents[receptacle]


def _open(state: State, receptacle: int, _: int) -> Event:
    layout = state.layout
    if layout.place_of[receptacle] != state.place:
        return OPEN, receptacle, -1, NOT_HERE, None
    if not state.shut[receptacle]:
        return OPEN, receptacle, -1, ALREADY_OPEN if layout.openable[receptacle] else NOT_OPENABLE, None
    state.shut[receptacle] = 0
    state.key = (state.key + layout.keys.open[receptacle]) % PRIME
    state.forget(receptacle)
    return OPEN, receptacle, -1, None, state.contents[receptacle]


def _close(state: State, receptacle: int, _: int) -> Event:
    layout = state.layout
    if layout.place_of[receptacle] != state.place:
        return CLOSE, receptacle, -1, NOT_HERE, None
    if state.shut[receptacle] or not layout.openable[receptacle]:
        return CLOSE, receptacle, -1, ALREADY_CLOSED if state.shut[receptacle] else NOT_OPENABLE, None
    state.shut[receptacle] = 1
    state.key = (state.key - layout.keys.open[receptacle]) % PRIME
    state.forget(receptacle)
    return CLOSE, receptacle, -1, None, None


def _take(state: State, thing: int, receptacle: int) -> Event:
    layout = state.layout
    if error := _take_error(state, thing, receptacle):
        return TAKE, thing, receptacle, error, None
    keys = layout.keys
    within, at = state.within[thing], state.at[thing]
    if layout.compat:  # an object is in one hand and nowhere else
        left, places = within, at
    else:
        left, places = (receptacle,), (state.place,) if state.place in at else ()
    value = keys.hand
    for item in left:
        value -= keys.inside[item]
        contents = state.contents[item]
        position = contents.index(thing)
        state.contents[item] = contents[:position] + contents[position + 1 :]
        state.forget(item)
    if layout.shared[receptacle]:
        value += keys.gone[receptacle]
        state.gone[thing] = tuple(sorted((*state.gone.get(thing, ()), receptacle)))
    for place in places:
        value -= keys.at[place]
    state.within[thing] = tuple(item for item in within if item not in left)
    state.at[thing] = tuple(place for place in at if place not in places)
    state.held = thing
    state.key = (state.key + keys.thing[thing] * value) % PRIME
    if layout.look or layout.flags[thing] & WANTED:
        state.won = is_won(state)
    return TAKE, thing, receptacle, None, None


def _take_error(state: State, thing: int, receptacle: int) -> str | None:
    layout = state.layout
    if layout.place_of[receptacle] != state.place:
        return NOT_HERE
    if state.shut[receptacle]:
        return CLOSED
    if receptacle not in state.within[thing]:
        return NOT_IN
    if not layout.flags[thing] & PICKUPABLE:
        return FIXED
    return HAND_FULL if state.held >= 0 else None


def _move(state: State, thing: int, receptacle: int) -> Event:
    layout = state.layout
    if error := _move_error(state, thing, receptacle):
        return MOVE, thing, receptacle, error, None
    keys = layout.keys
    value = -keys.hand
    within, at = state.within[thing], state.at[thing]
    if receptacle not in within:  # the original may hold what is still "in" a second receptacle
        value += keys.inside[receptacle]
        state.within[thing] = (receptacle,) if not within else tuple(sorted((*within, receptacle)))
        state.contents[receptacle] = tuple(sorted((*state.contents[receptacle], thing)))
    if state.place not in at:
        value += keys.at[state.place]
        state.at[thing] = (state.place,) if not at else tuple(sorted((*at, state.place)))
    if receptacle in state.gone.get(thing, ()):
        value -= keys.gone[receptacle]
        rest = tuple(item for item in state.gone.pop(thing) if item != receptacle)
        if rest:
            state.gone[thing] = rest
    state.forget(receptacle)
    state.held = -1
    state.key = (state.key + keys.thing[thing] * value) % PRIME
    if layout.look or layout.flags[thing] & WANTED:
        state.won = is_won(state)
    return MOVE, thing, receptacle, None, None


def _move_error(state: State, thing: int, receptacle: int) -> str | None:
    layout = state.layout
    if thing != state.held:
        return NOT_HELD
    if layout.place_of[receptacle] != state.place:
        return NOT_HERE
    if state.shut[receptacle]:
        return CLOSED
    return None if layout.accepting[thing] >> receptacle & 1 else CANNOT_CONTAIN


def _treat(operation: int, ability: int, gives: int, removes: int) -> Callable[[State, int, int], Event]:
    """Return the operation that cleans, heats or cools: it gives one state and removes another."""

    def treat(state: State, thing: int, receptacle: int) -> Event:
        layout = state.layout
        if thing != state.held:
            return operation, thing, receptacle, NOT_HELD, None
        if layout.place_of[receptacle] != state.place:
            return operation, thing, receptacle, NOT_HERE, None
        if layout.appliances[receptacle] != gives:
            return operation, thing, receptacle, WRONG_APPLIANCE, None
        if not layout.flags[thing] & ability:
            return operation, thing, receptacle, NOT_ABLE, None
        _set_state(state, thing, (state.states[thing] | gives) & ~removes)
        return operation, thing, receptacle, None, None

    return treat


def _set_state(state: State, thing: int, new: int) -> None:
    layout = state.layout
    old = state.states[thing]
    if old != new:
        values = layout.keys.state
        state.key = (state.key + layout.keys.thing[thing] * (values[new] - values[old])) % PRIME
        state.states[thing] = new
        if layout.ask and layout.flags[thing] & WANTED:
            state.won = is_won(state)


def _use(state: State, thing: int, _: int) -> Event:
    layout = state.layout
    if not layout.flags[thing] & TOGGLEABLE:
        return USE, thing, -1, NOT_ABLE, None
    for receptacle in state.within[thing]:
        if layout.place_of[receptacle] == state.place:
            _set_state(state, thing, state.states[thing] | TOGGLED)
            if layout.look:
                state.won = is_won(state)
            return USE, thing, receptacle, None, None
    return USE, thing, -1, NOT_HERE, None


def _slice(state: State, thing: int, knife: int) -> Event:
    layout = state.layout
    if knife != state.held:
        return SLICE, thing, knife, NOT_HELD, None
    if not layout.knives[knife]:
        return SLICE, thing, knife, NO_KNIFE, None
    if not layout.flags[thing] & SLICEABLE:
        return SLICE, thing, knife, NOT_ABLE, None
    if not can_reach_to_slice(state, thing):
        return SLICE, thing, knife, NOT_HERE, None
    _set_state(state, thing, state.states[thing] | SLICED)
    place_of, shut = layout.place_of, state.shut
    around = [item for item in state.within[thing] if place_of[item] == state.place]
    return SLICE, thing, knife, None, tuple(sorted(around, key=lambda item: shut[item])[:1])


def can_reach_to_slice(state: State, thing: int) -> bool:
    """Return whether an object is where it can be sliced: here, and outside ``original`` in nothing closed."""
    if state.place not in state.at[thing]:
        return False
    layout = state.layout
    return not layout.compat or any(
        layout.place_of[receptacle] == state.place and not state.shut[receptacle] for receptacle in state.within[thing]
    )


def _examine(state: State, receptacle: int, _: int) -> Event:
    if state.layout.place_of[receptacle] != state.place:
        return EXAMINE, receptacle, -1, NOT_HERE, None
    return EXAMINE, receptacle, -1, None, None if state.shut[receptacle] else state.contents[receptacle]


def _inspect(state: State, thing: int, _: int) -> Event:
    if thing != state.held:
        return INSPECT, thing, -1, NOT_HELD, None
    return INSPECT, thing, -1, None, (state.states[thing],)


def _look(state: State, _: int, __: int) -> Event:
    return LOOK, state.place, -1, None, _next_to(state) if state.gone else ()


def _next_to(state: State) -> tuple[int, ...]:
    """Return the objects at this place that were taken from a receptacle here and are not back in it.

    The original's condition wants an explicit "not in", which exists only once the object was taken out; an object
    shows up once for each such receptacle.
    """
    place, place_of = state.place, state.layout.place_of
    return tuple(
        thing
        for thing in sorted(state.gone)
        if place in state.at[thing]
        for receptacle in state.gone[thing]
        if place_of[receptacle] == place
    )


def _inventory(state: State, _: int, __: int) -> Event:
    return INVENTORY, state.held, -1, None, None


def _help(_: State, __: int, ___: int) -> Event:
    return HELP, -1, -1, None, None


def _nothing(_: State, first: int, second: int) -> Event:
    return NONE, first, second, UNKNOWN_COMMAND, None


Operation: TypeAlias = Callable[[State, int, int], Event]

RULES: Final[tuple[Operation, ...]] = (
    _nothing,
    _go,
    _open,
    _close,
    _take,
    _move,
    _treat(CLEAN_WITH, CLEANABLE, CLEAN, 0),
    _treat(HEAT_WITH, HEATABLE, HOT, COOL),
    _treat(COOL_WITH, COOLABLE, COOL, HOT),
    _use,
    _slice,
    _examine,
    _inspect,
    _look,
    _inventory,
    _help,
)
"""The operations by number."""
