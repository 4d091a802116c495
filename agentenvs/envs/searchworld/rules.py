"""What an action does in a search world: transitions, no words.

The state is which articles were found and which were opened, with the turn each first was, the searches that are left,
and the answer. Articles do not change. Equal states have equal keys: those that have opened the same articles and given
the same answer, whatever the way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from agentenvs.core.canon import JSON
from agentenvs.envs.searchworld.actions import Answer, Command, Read, Search
from agentenvs.envs.searchworld.library import Found, Library

NO_SUCH_ARTICLE: Final = "no_such_article"
NO_SEARCHES_LEFT: Final = "no_searches_left"


class Event(NamedTuple):
    """What happened in a turn."""

    command: Command | None
    error: str | None = None
    """Why nothing was done."""
    found: tuple[Found, ...] = ()
    """What a search found, best first."""
    opened: tuple[int, ...] = ()
    """Articles that were shown in full."""


class World:
    """A search world in play.

    Args:
        library: The articles; shared by all worlds of it.
        searches: How many searches there may be.
        noise: Percent of the documents a search would find that it misses, to imitate an imperfect engine.
    """

    __slots__ = ("answer", "found", "key", "library", "noise", "opened", "searches")

    def __init__(self, library: Library, searches: int, noise: int = 0) -> None:
        self.library = library
        self.searches = searches
        self.noise = noise
        self.found: dict[int, int] = {}
        self.opened: dict[int, int] = {}
        self.answer: tuple[str, ...] | None = None
        self.key = 0

    def fork(self) -> World:
        """Return an independent copy."""
        twin = World(self.library, self.searches, self.noise)
        twin.found, twin.opened = self.found.copy(), self.opened.copy()
        twin.answer, twin.key = self.answer, self.key
        return twin

    def apply(self, command: Command | str, turn: int) -> Event:
        """Do a command; an error code, from a parser, does nothing.

        Args:
            command: The command.
            turn: Number of the turn, for the record of what was seen when.
        """
        if isinstance(command, str):
            return Event(None, command)
        if isinstance(command, Search):
            return self._search(command, turn)
        if isinstance(command, Read):
            return self._read(command, turn)
        self.answer = command.answers
        self.key ^= _part("answer\0" + "\0".join(command.answers))
        return Event(command)

    def _search(self, command: Search, turn: int) -> Event:
        if self.searches <= 0:
            return Event(command, NO_SEARCHES_LEFT)
        self.searches -= 1
        found = self._look_for(command.query, command.k)
        for item in found:
            self.found.setdefault(item.number, turn)
        opened = tuple(item.number for item in found) if command.tags else ()
        for number in opened:
            self._open(number, turn)
        return Event(command, None, found, opened)

    def _look_for(self, query: str, k: int) -> tuple[Found, ...]:
        if not self.noise:
            return tuple(self.library.look_for(query, k))
        wide = self.library.look_for(query, 4 * k)
        return tuple(item for item in wide if not self._is_missed(query, item.number))[:k]

    def _is_missed(self, query: str, number: int) -> bool:
        return _part(f"noise\0{self.library.digest}\0{query}\0{number}") % 100 < self.noise

    def _read(self, command: Read, turn: int) -> Event:
        number = self.library.number_of(command.article)
        if number is None:
            return Event(command, NO_SUCH_ARTICLE)
        self._open(number, turn)
        return Event(command, None, (), (number,))

    def _open(self, number: int, turn: int) -> None:
        if number not in self.opened:
            self.opened[number] = turn
            self.key ^= _part(f"opened\0{number}")

    def snapshot(self) -> dict[str, JSON]:
        """Return the state as JSON."""
        return {
            "searches": self.searches,
            "found": [list(item) for item in self.found.items()],
            "opened": [list(item) for item in self.opened.items()],
            "answer": None if self.answer is None else list(self.answer),
        }

    def restore(self, saved: Mapping[str, JSON]) -> None:
        """Go to the state that :meth:`snapshot` returned.

        Raises:
            ValueError: It is no state of this world.
        """
        try:
            self.searches = _index(saved["searches"], self.searches + 1)
            self.found = {_index(number, len(self.library)): _index(turn, 2**31) for number, turn in saved["found"]}
            opened = [(_index(number, len(self.library)), _index(turn, 2**31)) for number, turn in saved["opened"]]
            answer = saved["answer"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no saved search world: {error!r}") from error
        self.opened, self.key = {}, 0
        for number, turn in opened:
            self._open(number, turn)
        self.answer = None
        if answer is not None:
            if not isinstance(answer, list) or not all(isinstance(text, str) for text in answer):
                raise ValueError("the saved answer is none")
            self.apply(Answer(tuple(answer)), 0)


def _index(value: JSON, size: int) -> int:
    if type(value) is not int or not 0 <= value < size:
        raise ValueError(f"{value!r:.40} is no number below {size}")
    return value


def _part(text: str) -> int:
    """Return the share of one thing in a state's key."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest(), "big")
