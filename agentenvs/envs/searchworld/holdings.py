"""Universes and corpora at hand: opened from what was prepared, or made, and kept while they are in use.

A universe of a finite split is made once and kept in the cache on disk, where processes share it by memory map; those
of ``train`` come without end, so they are only made in memory, unless somebody prepared them. Sealed ones are never
written. A disk that cannot be written to is no error: everything can be made in memory.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Hashable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from agentenvs.core import prepared
from agentenvs.core.errors import DataError
from agentenvs.core.prepared import Item
from agentenvs.core.sealed import sealed_scenario_key
from agentenvs.core.search import Index, build_from_words
from agentenvs.core.search.bundle import Bundle
from agentenvs.core.spec import EnvSpec
from agentenvs.core.streams import derive, scenario_key
from agentenvs.envs.searchworld.library import TOKENIZER, Library
from agentenvs_scenarios.searchworld.build import Built, build, generator
from agentenvs_scenarios.searchworld.ladder import catalogue
from agentenvs_scenarios.searchworld.programs import Names
from agentenvs_scenarios.searchworld.reader import Reader
from agentenvs_scenarios.searchworld.universe import KIND, Universe

SLUG: Final = "searchworld"
SEALED: Final = "sealed"
KEPT_PEOPLE: Final = 60_000
"""People of the universes that are kept in memory when no episode is played in them: twelve of the usual size."""

_UNIVERSE, _INDEX = "universe.bin", "index.bin"

T = TypeVar("T")

log = logging.getLogger("agentenvs.searchworld")


class Place(NamedTuple):
    """Where a universe stands."""

    split: str
    number: int
    people: int


class Recent(Generic[T]):
    """The values asked for last, by key; the very last one is always kept.

    Args:
        size: How many are kept, or how much they weigh together.
        weigh: What one weighs.
    """

    __slots__ = ("_size", "_values", "_weigh")

    def __init__(self, size: int, weigh: Callable[[T], int] = lambda _: 1) -> None:
        self._size = size
        self._weigh = weigh
        self._values: dict[Hashable, T] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key; made now, where it is not kept."""
        value = self._values.pop(key, None)
        if value is None:
            value = make()
        self._values[key] = value
        # Several threads may share this; whoever comes second finds the oldest gone already.
        with contextlib.suppress(StopIteration, RuntimeError):
            while len(self._values) > 1 and sum(map(self._weigh, self._values.values())) > self._size:
                self._values.pop(next(iter(self._values)), None)
        return value


class UniverseShelf:
    """The articles of a universe.

    Args:
        universe: The universe.
    """

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.title = universe.title
        self.text = universe.text

    def __len__(self) -> int:
        return len(self.universe)

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        return self.universe.digest

    @cached_property
    def names(self) -> Names:
        """Entities by name."""
        return Names(self.universe)

    def find(self, title: str) -> int | None:
        """Return the document of a title, or None."""
        entity = self.names.find(title)
        return None if entity is None else self.universe.document_of.item(entity)


class Holding:
    """A library, and what is known of it beside its articles.

    Args:
        library: The library.
        shelf: The universe it is of; None for a corpus.
        comma: Whether commas part the answers of a text.
    """

    def __init__(self, library: Library, shelf: UniverseShelf | None = None, comma: bool = False) -> None:
        self.library = library
        self.shelf = shelf
        self.comma = comma

    @cached_property
    def reader(self) -> Reader:
        """Who reads its articles and remembers them."""
        return Reader(self.library)


def _people(held: Holding) -> int:
    return 0 if held.shelf is None else held.shelf.universe.people


_universes: Recent[Holding] = Recent(KEPT_PEOPLE, _people)


def universe_key(place: Place) -> bytes:
    """Return the 256-bit key of a universe.

    Raises:
        ConfigError: It is sealed, and the operator's secret cannot be used.
    """
    if place.split == SEALED:
        key = sealed_scenario_key(SLUG, place.number)
    else:
        key = scenario_key(SLUG, place.split, place.number)
    return derive(key, f"universe/{place.people}")


def universe(spec: EnvSpec, place: Place, given: str | None) -> Holding:
    """Return a universe.

    Args:
        spec: The environment's.
        place: Which one.
        given: The option ``prepared``.

    Raises:
        ConfigError: It is sealed, and the operator's secret cannot be used.
        DataError: What was prepared is damaged, or nothing of these worlds was prepared there.
    """
    # Named by the key, a sealed universe is found by nobody who could not make it.
    return _universes.get(universe_key(place), lambda: _opened(spec, place, given))


def item(place: Place) -> Item:
    """Return a universe as something that is prepared."""

    def make(folder: Path, progress: prepared.Progress) -> None:
        progress("building the universe", 0, 2)
        made = build(universe_key(place), place.people)
        made.universe.bundle.save(folder / _UNIVERSE)
        progress("indexing its articles", 1, 2)
        _indexed(made).save(folder / _INDEX)
        progress("done", 2, 2)

    key = {"split": place.split, "number": place.number, "people": place.people, "generator": generator()}
    return Item("universe", key, make)


def _opened(spec: EnvSpec, place: Place, given: str | None) -> Holding:
    folder = None if place.split == SEALED else _folder(spec, place, given or os.environ.get(prepared.VARIABLE))
    if folder is None:
        made = build(universe_key(place), place.people)
        return _held(made.universe, _indexed(made))
    return _held(Universe.from_bundle(Bundle.open(folder / _UNIVERSE, KIND)), Index.open(folder / _INDEX))


def _folder(spec: EnvSpec, place: Place, given: str | None) -> Path | None:
    """Return the folder of a universe; None where it is to be made in memory."""
    wanted = item(place)
    if given:
        if given not in _demanded:  # once: it looks at everything that lies there
            prepared.demand(spec, given)
            _demanded.add(given)
        if (Path(given) / prepared.folder_name(spec, wanted)).is_dir():
            return prepared.folder(spec, wanted, given)
        if catalogue().splits[place.split].size is not None:
            _tell_absent(given, place.split, place.people)
        return None
    if catalogue().splits[place.split].size is None:
        return None
    try:
        return prepared.folder(spec, wanted, None)
    except (DataError, RuntimeError):  # no cache here
        return None


_demanded: Final[set[str]] = set()
"""Folders of prepared universes that were found to be such."""


@lru_cache(maxsize=64)
def _tell_absent(given: str, split: str, people: int) -> None:
    """Say once that what was prepared is not all of a split."""
    log.warning("%s lacks universes of %s with %d people, which are made in memory", given, split, people)


def _indexed(made: Built) -> Index:
    words = made.words
    ids = [str(number) for number in range(len(made.universe))]
    return build_from_words(ids, words.numbers, words.ends, words.vocabulary, tokenizer=TOKENIZER)


def _held(made: Universe, index: Index) -> Holding:
    shelf = UniverseShelf(made)
    return Holding(Library(shelf, index), shelf)
