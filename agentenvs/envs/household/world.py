"""A household in play: words in, words out.

:class:`World` puts grammar, rules and words together. It is a state, so whatever reads a state reads a world.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentenvs.core.canon import JSON
from agentenvs.envs.household import view
from agentenvs.envs.household.actions import NONE, Command, parse_call, parse_text
from agentenvs.envs.household.layout import Layout
from agentenvs.envs.household.rules import RULES, Event, State, is_won, state_key


class World(State):
    """A household in play.

    Args:
        layout: The scenario, compiled; shared by all worlds of it.
    """

    __slots__ = ()

    def opening(self) -> str:
        """Return the first observation."""
        return view.opening(self.layout)

    def step(self, text: object) -> tuple[str, Event]:
        """Do what a text says.

        Args:
            text: Anything; what is no command changes nothing.

        Returns:
            The reply, and what happened; it was invalid if ``event[3]``, its error code, is not None.
        """
        return self.apply(parse_text(self.layout, text))

    def call(self, tool: object, arguments: object) -> tuple[str, Event]:
        """Do what a tool call says; like :meth:`step` otherwise."""
        return self.apply(parse_call(self.layout, tool, arguments))

    def apply(self, command: Command | str) -> tuple[str, Event]:
        """Do a typed command; an error code, from a parser, does nothing."""
        if isinstance(command, str):
            return view.NOTHING, (NONE, -1, -1, command, None)
        operation, first, second = command
        event = RULES[operation](self, first, second)
        if event[3] is not None:
            return view.NOTHING, event
        return view.WORDS[operation](self, event), event

    def admissible(self) -> tuple[str, ...]:
        """Return the commands that would be done now, sorted as plain strings."""
        return view.admissible(self)

    def fork(self) -> World:
        """Return an independent copy."""
        twin = object.__new__(World)
        twin.layout = self.layout
        twin.place, twin.held, twin.key, twin.won = self.place, self.held, self.key, self.won
        twin.shut, twin.states = self.shut[:], self.states[:]
        twin.within, twin.at, twin.contents = self.within[:], self.at[:], self.contents[:]
        twin.gone = self.gone.copy()
        twin.views, twin.offers = self.views[:], self.offers[:]
        return twin

    def snapshot(self) -> dict[str, JSON]:
        """Return the state as JSON: what differs from the layout's initial state."""
        layout = self.layout
        return {
            "place": self.place,
            "held": self.held,
            "shut": _changes(self.shut, layout.shut),
            "states": _changes(self.states, layout.states),
            "within": _changes(self.within, layout.within),
            "at": _changes(self.at, layout.at),
            "gone": [[thing, list(items)] for thing, items in sorted(self.gone.items())],
        }

    @classmethod
    def restore(cls, layout: Layout, saved: Mapping[str, JSON]) -> World:
        """Return the world of which :meth:`snapshot` made ``saved``.

        Raises:
            ValueError: ``saved`` is no state of this layout.
        """
        world = cls(layout)
        try:
            world.place = _index(saved["place"], len(layout.here))
            world.held = _index(saved["held"] + 1, len(layout.things) + 1) - 1
            for name in ("shut", "states"):
                values = getattr(world, name)
                for index, value in saved[name]:
                    values[_index(index, len(values))] = _index(value, 32)
            for name, size in (("within", len(layout.receptacles)), ("at", len(layout.here))):
                tuples = getattr(world, name)
                for index, items in saved[name]:
                    tuples[_index(index, len(tuples))] = _indices(items, size)
            world.gone = {
                _index(thing, len(layout.things)): _indices(items, len(layout.receptacles))
                for thing, items in saved["gone"]
            }
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no saved household: {error!r}") from error
        inside: list[list[int]] = [[] for _ in layout.receptacles]
        for thing, receptacles in enumerate(world.within):
            for receptacle in receptacles:
                inside[receptacle].append(thing)
        world.contents = [tuple(items) for items in inside]
        world.key = state_key(world)
        world.won = is_won(world)
        return world


def _changes(now: Iterable[Any], before: Iterable[Any]) -> list[JSON]:
    return [
        [index, list(new) if isinstance(new, tuple) else new]
        for index, (new, old) in enumerate(zip(now, before, strict=True))
        if new != old
    ]


def _index(value: Any, size: int) -> int:
    if type(value) is not int or not 0 <= value < size:
        raise ValueError(f"{value!r} is no index below {size}")
    return value


def _indices(values: Any, size: int) -> tuple[int, ...]:
    found = tuple(_index(value, size) for value in values)
    if list(found) != sorted(set(found)):
        raise ValueError(f"{values!r} is not ascending")
    return found
