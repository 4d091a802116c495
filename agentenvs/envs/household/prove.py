"""Shortest solutions with full knowledge, and the distance to the goal from any state, in closed form.

Whatever reaches the goal is a short *chain of stations*: put down what is in the way, take a goal object, treat it,
put it where it belongs, turn on the lamp, stand beside it. A station is an operation at a receptacle; between two of
them lies at most one ``go to``, since every place is one step from every other, and before one that reaches into a
closed receptacle lies an ``open``, once. So the length of a chain is counted, not searched, and the distance is the
least over a handful of chains: of the receptacles that could serve a station, only those matter that save a step by
standing where the chain passes anyway, by being open, or by having been opened for another station.

All three profiles are exact, ``original`` with its phantoms too: there an object taken out of one receptacle may still
be in a second one, so that treating it in the hand, or placing its twin, reaches the goal. Nothing else of the rules
shortens a solution: closing, slicing and looking never do, and putting a goal object down half way costs more than
carrying it. Lamps are taken to stay where they are (no lamp of the field can be picked up).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from agentenvs.envs.household.actions import (
    CLEAN_WITH,
    COOL_WITH,
    GO,
    HEAT_WITH,
    MOVE,
    OPEN,
    TAKE,
    USE,
    Command,
    command_text,
)
from agentenvs.envs.household.layout import CLEAN, COOL, HOT, PICKUPABLE, TOGGLED, Layout
from agentenvs.envs.household.rules import State

Station: TypeAlias = tuple[int, int, int]
"""Operation, object, and the receptacle it happens at; ``(GO, -1, r)`` is only to be there."""
Chain: TypeAlias = tuple[Station, ...]

FARTHEST: Final = 14
"""No reachable goal is farther: putting down 3, taking 3, placing 3, taking 3, and back to the open target 2."""

_TREATING: Final = {CLEAN: CLEAN_WITH, HOT: HEAT_WITH, COOL: COOL_WITH}


class Proof(NamedTuple):
    """That a scenario can be solved, and how."""

    solvable: bool
    par: int | None
    """Steps of the shortest solution; None where there is none."""
    plan: tuple[str, ...]
    """One such solution, as commands."""


def prove(layout: Layout) -> Proof:
    """Prove a scenario solvable under the rules of the layout's profile, or not."""
    plan = shortest(State(layout))
    if plan is None:
        return Proof(False, None, ())
    return Proof(True, len(plan), tuple(command_text(layout, command) for command in plan))


def par(layout: Layout) -> int | None:
    """Return the steps of the shortest solution from the start, or None where there is none."""
    return distance(State(layout))


def distance(state: State) -> int | None:
    """Return the least number of steps after which the goal holds; None from a dead end."""
    return min((_length(state, chain) for chain in _chains(state)), default=None)


def potential(state: State) -> float:
    """Return Φ in [-1, 0]: 0 where the goal holds, -1 in a dead end, else ``-distance / (FARTHEST + 1)``."""
    steps = distance(state)
    return -1.0 if steps is None else -steps / (FARTHEST + 1)


def shortest(state: State) -> tuple[Command, ...] | None:
    """Return the commands of a shortest solution from a state, always the same one; None from a dead end."""
    best = min(_chains(state), key=lambda chain: _length(state, chain), default=None)
    return None if best is None else tuple(_commands(state, best))


def _length(state: State, chain: Chain) -> int:
    """Return how many steps :func:`_commands` makes of a chain."""
    place_of, shut = state.layout.place_of, state.shut
    place, steps = state.place, 0
    opened: tuple[int, ...] = ()
    for operation, _, receptacle in chain:
        if place_of[receptacle] != place:
            place = place_of[receptacle]
            steps += 1
        if shut[receptacle] and operation in (TAKE, MOVE) and receptacle not in opened:
            opened += (receptacle,)
            steps += 1
        if operation != GO:
            steps += 1
    return steps


def _commands(state: State, chain: Chain) -> Iterator[Command]:
    place_of = state.layout.place_of
    place, shut = state.place, state.shut[:]
    for operation, thing, receptacle in chain:
        if place_of[receptacle] != place:
            place = place_of[receptacle]
            yield GO, receptacle, -1
        if shut[receptacle] and operation in (TAKE, MOVE):
            shut[receptacle] = 0
            yield OPEN, receptacle, -1
        if operation != GO:
            yield operation, thing, -1 if operation == USE else receptacle


class _Spots:
    """Receptacles that could all serve the same station, of which only a few are worth a thought."""

    __slots__ = ("_anywhere", "_by_place", "_known")

    def __init__(self, state: State, receptacles: Iterable[int]) -> None:
        place_of, shut = state.layout.place_of, state.shut
        self._known = tuple(receptacles)
        self._by_place: dict[int, int] = {}
        for receptacle in self._known:
            best = self._by_place.setdefault(place_of[receptacle], receptacle)
            if shut[best] > shut[receptacle]:
                self._by_place[place_of[receptacle]] = receptacle
        self._anywhere = min(self._by_place.values(), key=lambda receptacle: shut[receptacle], default=None)

    def near(self, places: tuple[int, ...], opened: tuple[int, ...]) -> list[int]:
        """Return one receptacle at each of these places, those among ``opened``, and one anywhere; open ones first.

        Args:
            places: Places the chain passes anyway.
            opened: Receptacles the chain opens for another station.
        """
        found = [self._by_place[place] for place in places if place in self._by_place]
        found += [receptacle for receptacle in opened if receptacle in self._known]
        if self._anywhere is not None:
            found.append(self._anywhere)
        return list(dict.fromkeys(found))


def _chains(state: State) -> Iterator[Chain]:
    """Return chains that lead to the goal, the shortest among them."""
    layout = state.layout
    if state.won:
        return iter([()])
    if layout.look:
        return _to_look(state)
    return _to_place_two(state) if layout.two else _to_place_one(state)


def _to_look(state: State) -> Iterator[Chain]:
    """Hold a goal object beside a lamp that was turned on."""
    layout = state.layout
    lamps = [
        ((GO if state.states[lamp] & TOGGLED else USE), lamp, receptacle)
        for lamp in layout.targets
        for receptacle in state.within[lamp]
    ]
    down = _downs(state)
    for thing in _hands(state, layout.wanted):
        for head in _takes(state, thing, down):
            for lamp in lamps:
                yield (*head, lamp)


def _to_place_one(state: State) -> Iterator[Chain]:
    """Put a goal object, treated where a state is asked for, in or on a target."""
    layout = state.layout
    down = _downs(state)
    for thing in layout.wanted:
        targets = _Spots(state, _takers(layout, thing))
        if state.states[thing] & layout.ask == layout.ask:
            treating: list[Chain] = [()]
        else:
            treating = [
                ((_TREATING[layout.ask], thing, receptacle),)
                for receptacle, gives in enumerate(layout.appliances)
                if gives == layout.ask
            ]
        for source in _sources(state, thing):
            for middle in treating:
                yield from _to_place(state, thing, source, middle, targets, down)


def _to_place(
    state: State, thing: int, source: int, middle: Chain, targets: _Spots, down: _Spots | None
) -> Iterator[Chain]:
    """Take an object from a source (-1: from the hand), treat it if need be, and place it."""
    layout = state.layout
    place_of = layout.place_of
    if middle and not layout.compat and any(item in layout.targets for item in state.within[thing] if item != source):
        # The phantom is in a target already.
        for head in _heads(state, thing, source, down, ()):
            yield head + middle
        return
    passed = tuple(place_of[station[2]] for station in middle)
    if source >= 0:
        passed += (place_of[source],)
    for target in targets.near((state.place, *passed), (source,)):
        for head in _heads(state, thing, source, down, (target,)):
            yield (*head, *middle, (MOVE, thing, target))


def _to_place_two(state: State) -> Iterator[Chain]:
    """Put two goal objects in or on the same target."""
    layout = state.layout
    down = _downs(state)
    empty: list[int] = []
    for target in layout.targets:
        inside = [thing for thing in layout.wanted if thing in state.contents[target]]
        if not inside:
            empty.append(target)
            continue
        rest = [thing for thing in layout.wanted if thing not in inside and target in _takers(layout, thing)]
        for thing in _hands(state, rest):
            for head in _takes(state, thing, down, (target,)):
                yield (*head, (MOVE, thing, target))
    for first in _hands(state, layout.wanted):
        targets = _Spots(state, (target for target in _takers(layout, first) if target in empty))
        for second in layout.wanted:
            if second not in (first, state.held):
                yield from _to_pair(state, first, second, targets, down)


def _to_pair(state: State, first: int, second: int, targets: _Spots, down: _Spots | None) -> Iterator[Chain]:
    """Place one object, then another, in or on the same target."""
    place_of = state.layout.place_of
    for left in _sources(state, first):
        for right in _sources(state, second):
            passed = (state.place, place_of[right], *((place_of[left],) if left >= 0 else ()))
            for target in targets.near(passed, ()):
                for head in _heads(state, first, left, down, (right, target)):
                    yield (*head, (MOVE, first, target), (TAKE, second, right), (MOVE, second, target))


def _takes(state: State, thing: int, down: _Spots | None, opened: tuple[int, ...] = ()) -> Iterator[Chain]:
    for source in _sources(state, thing):
        yield from _heads(state, thing, source, down, opened)


def _heads(state: State, thing: int, source: int, down: _Spots | None, opened: tuple[int, ...]) -> Iterator[Chain]:
    """Return how a chain may begin that has an object in the hand.

    Args:
        state: The state.
        thing: The object.
        source: The receptacle to take it from; -1 where it is held.
        down: Where to put what is in the hand; None where the hand is empty.
        opened: Receptacles the chain opens later.
    """
    if source < 0:
        yield ()
    elif down is None:
        yield ((TAKE, thing, source),)
    else:
        for spot in down.near((state.place, state.layout.place_of[source]), (source, *opened)):
            yield (MOVE, state.held, spot), (TAKE, thing, source)


def _hands(state: State, things: Iterable[int]) -> tuple[int, ...]:
    """Return the objects worth having in the hand: the one that is there, if it is one of these, else all."""
    things = tuple(things)
    return (state.held,) if state.held in things else things


def _sources(state: State, thing: int) -> tuple[int, ...]:
    """Return the receptacles an object can be taken from; -1 where it is held."""
    if thing == state.held:
        return (-1,)
    return state.within[thing] if state.layout.flags[thing] & PICKUPABLE else ()


def _takers(layout: Layout, thing: int) -> tuple[int, ...]:
    """Return the targets that take an object."""
    return tuple(target for target in layout.targets if layout.accepting[thing] >> target & 1)


def _downs(state: State) -> _Spots | None:
    """Return where the object in the hand could be put down; None where the hand is empty."""
    if state.held < 0:
        return None
    accepting = state.layout.accepting[state.held]
    return _Spots(state, (receptacle for receptacle in range(accepting.bit_length()) if accepting >> receptacle & 1))
