"""Builds a universe from its key: entities, names, facts and which article states each, all in columns.

Everything random is an array drawn from a stream named after its purpose. Nothing is written here: the articles of a
universe are :mod:`agentenvs_scenarios.searchworld.articles`' work.
"""

from __future__ import annotations

from importlib import resources
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agentenvs.core.canon import sha256
from agentenvs_scenarios.searchworld.articles import Facts, Words, write
from agentenvs_scenarios.searchworld.draws import Draws, Ints, zipf
from agentenvs_scenarios.searchworld.schema import TYPES, Attribute, Kind, Relation, schema
from agentenvs_scenarios.searchworld.universe import NOBODY, Blob, Flags, Links, Universe, links_of
from agentenvs_scenarios.searchworld.vocabulary import Coiner

SIZES: Final = (500, 5_000, 50_000)
"""People of a small, a usual and a large universe; any number from :data:`LEAST` on will do."""

LEAST: Final = 100

GENERATION: Final = 1
"""Raised where the code below, or what it uses, makes another universe of a key."""

_YOUNGEST, _OLDEST = 18, 45
"""Years that somebody drawn as ``older`` is older."""


def generator() -> str:
    """Return a name for what universes are built by: another one where they may come out differently."""
    tables = resources.files("agentenvs_scenarios.searchworld")
    data = b"".join(tables.joinpath(name).read_bytes() for name in ("tables.toml", "real_words.txt"))
    return f"{GENERATION}-{sha256(data)[:16]}"


class Built(NamedTuple):
    """A universe, and the words of its documents, which an index is built from."""

    universe: Universe
    words: Words


def build(key: bytes, people: int) -> Built:
    """Return the universe of a key.

    Args:
        key: 256 bits.
        people: How many people live in it.
    """
    return _Making(key, people).built()


class _Making:
    """A universe that is being made."""

    def __init__(self, key: bytes, people: int) -> None:
        self.key = key
        self.people = people
        self.kinds = schema().kinds
        self.counts = tuple(max(people // self.kinds[name].share, 4) for name in TYPES)
        self.first = {name: sum(self.counts[:place]) for place, name in enumerate(TYPES)}
        self.size = dict(zip(TYPES, self.counts, strict=True))
        self.coiner = Coiner(key)

    def built(self) -> Built:
        names = [name for kind in TYPES for name in self._names(self.kinds[kind])]
        links = tuple(self._links(relation) for relation in schema().relations)
        words: list[tuple[str, ...]] = []
        values: list[npt.NDArray[np.int32]] = []
        for attribute in schema().attributes:
            column, known = self._values(attribute)
            values.append(column)
            words.append(known)
        order = Draws(self.key, "documents").order(len(names)).astype(np.int32)
        facts = Facts(self.first, self.size, links, tuple(values), tuple(words))
        texts, counted = write(self.key, names, facts, order)
        made = Universe(self.people, self.counts, blob(names), links, tuple(values), tuple(words), order, texts)
        return Built(made, counted)

    # ---- names -----------------------------------------------------------------------------------------------------

    def _names(self, kind: Kind) -> list[str]:
        count = self.size[kind.name]
        if kind.name == "person":
            return self._people(count)
        forms = Draws(self.key, f"forms/{kind.name}").below(count, len(kind.forms)).tolist()
        words = self.coiner.coin(kind.name, count)
        return [kind.forms[form].format(word=word.capitalize()) for form, word in zip(forms, words, strict=True)]

    def _people(self, count: int) -> list[str]:
        """Return full names: given names and bynames are shared, no pair is."""
        given = [word.capitalize() for word in self.coiner.coin("given", max(count // 20, 20))]
        byname = [word.capitalize() for word in self.coiner.coin("byname", max(count // 4, 40))]
        drawn = Draws(self.key, "people").below(2 * count, len(given) * len(byname))
        _, places = np.unique(drawn, return_index=True)
        pairs = drawn[np.sort(places)[:count]].tolist()
        return [f"{given[pair % len(given)]} {byname[pair // len(given)]}" for pair in pairs]

    # ---- facts -----------------------------------------------------------------------------------------------------

    def _links(self, relation: Relation) -> Links:
        draws = Draws(self.key, f"relation/{relation.name}")
        count, size = self.size[relation.subject], self.size[relation.object]
        first, base = self.first[relation.object], self.first[relation.subject]
        has = draws.percent(count, relation.cover)
        mine = draws.percent(count, relation.own)
        if relation.symmetric:
            objects, mine = self._pairs(draws, has, mine)
        else:
            objects = self._objects(draws, relation, count, size)
            objects[~has] = NOBODY
            if relation.subject == relation.object:
                objects[objects == np.arange(count)] = NOBODY
            _cap(objects, relation.most)
        known = np.where(objects >= 0, objects + first, NOBODY).astype(np.int32)
        return links_of(relation, known, mine, first, size, base)

    def _objects(self, draws: Draws, relation: Relation, count: int, size: int) -> Ints:
        if relation.draw == "zipf":
            return draws.weighted(count, zipf(size))
        if relation.draw == "even":
            return draws.below(count, size)
        if relation.draw == "skew":  # dense at low numbers, which an order of its own makes anybody's
            dense: Ints = draws.below(count, size) * draws.below(count, size) // size
            anybody: Ints = draws.order(size)[dense]
            return anybody
        # People are numbered by birth, evenly over the calendar, so somebody older stands so many places before.
        years = _YOUNGEST + draws.below(count, _OLDEST - _YOUNGEST + 1)
        span = schema().last_year - schema().first_year + 1
        found = np.arange(count) - years * count // span - draws.below(count, max(count // span, 1))
        return np.where(found >= 0, found, NOBODY)

    def _pairs(self, draws: Draws, has: Flags, mine: Flags) -> tuple[Ints, Flags]:
        """Return the partner of everybody who has one: people born within a few years of each other."""
        count = len(has)
        span = max(count // 100, 4)
        order = np.argsort(np.arange(count) + draws.below(count, span), kind="stable")
        order = order[has[order]]
        half = len(order) // 2
        left, right = order[0 : 2 * half : 2], order[1 : 2 * half : 2]
        objects = np.full(count, NOBODY, dtype=np.int64)
        objects[left], objects[right] = right, left
        stated = mine.copy()
        stated[right] = ~mine[left]
        return objects, stated

    def _values(self, attribute: Attribute) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
        draws = Draws(self.key, f"attribute/{attribute.name}")
        count = self.size[attribute.type]
        has = draws.percent(count, attribute.cover)
        if attribute.kind == "number":
            return self._numbers(draws, attribute, count).astype(np.int32), ()
        if attribute.kind == "alias":
            words = tuple(word.capitalize() for word in self.coiner.coin(attribute.name, int(has.sum())))
            column = np.full(count, NOBODY, dtype=np.int32)
            column[has] = np.arange(len(words))
            return column, words
        words = tuple(self.coiner.coin(attribute.name, attribute.values))
        drawn = draws.weighted(count, zipf(attribute.values))
        return np.where(has, drawn, NOBODY).astype(np.int32), words

    def _numbers(self, draws: Draws, attribute: Attribute, count: int) -> Ints:
        low, high = schema().first_year, schema().last_year
        if attribute.name == "birth":
            return low + np.arange(count) * (high - low + 1) // count
        return low + draws.below(count, high - low + 1)


def blob(texts: list[str]) -> Blob:
    """Return texts as a blob."""
    parts = [text.encode() for text in texts]
    ends = np.cumsum(np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)))
    return Blob(np.frombuffer(b"".join(parts), dtype=np.uint8), ends)


def _cap(objects: Ints, most: int) -> None:
    """Take the object away from every subject beyond the first ``most`` that share one."""
    if not most:
        return
    having = np.flatnonzero(objects >= 0)
    order = np.argsort(objects[having], kind="stable")
    sorted_objects = objects[having][order]
    starts = np.searchsorted(sorted_objects, sorted_objects, side="left")
    objects[having[order][np.arange(len(order)) - starts >= most]] = NOBODY
