"""A universe in columns: entities, facts and articles as integer arrays and blobs of bytes, read by number.

Entities are numbered by type, articles (*documents*) by a keyed permutation of them, so that neither a document's
number nor its place in a list says anything about when an entity was made. Everything a reader or an index needs
(titles and texts by document) is in the blobs; everything a question is made from (objects, subjects, values and which
article states a fact) is in the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from agentenvs.core.search.bundle import Bundle
from agentenvs_scenarios.searchworld.draws import Ints
from agentenvs_scenarios.searchworld.schema import FORWARD, TYPES, Attribute, Direction, Relation, schema

KIND: Final = "universe"
NOBODY: Final = -1

Flags: TypeAlias = npt.NDArray[np.bool_]
Edge: TypeAlias = tuple[int, int]
"""A neighbour, and the entity whose article says so."""


class Blob(NamedTuple):
    """Texts one after another."""

    data: npt.NDArray[np.uint8]
    ends: Ints

    def __len__(self) -> int:
        return len(self.ends)

    def text(self, number: int) -> str:
        """Return one text."""
        start = self.ends.item(number - 1) if number else 0
        return self.data[start : self.ends.item(number)].tobytes().decode()


class Links(NamedTuple):
    """The facts of one relation."""

    objects: npt.NDArray[np.int32]
    """Object of each subject, by its place among its type; :data:`NOBODY` for none."""
    mine: Flags
    """Whether it is the subject's article that says so."""
    starts: Ints
    """Where the subjects of each object begin in :attr:`subjects`; one more than there are objects."""
    subjects: npt.NDArray[np.int32]


class Universe:
    """A universe.

    Args:
        people: Its size: how many people live in it.
        counts: Entities of each type, in the order of :data:`TYPES`.
        names: Name of each entity.
        links: Facts of each relation, by number.
        values: Values of each attribute, by number: a number, the index of a word, or :data:`NOBODY`, by an entity's
            place among its type.
        words: Words of each attribute, by number; empty for numbers.
        entity_of: Entity of each document.
        texts: Text of each document.
    """

    def __init__(
        self,
        people: int,
        counts: tuple[int, ...],
        names: Blob,
        links: tuple[Links, ...],
        values: tuple[npt.NDArray[np.int32], ...],
        words: tuple[tuple[str, ...], ...],
        entity_of: npt.NDArray[np.int32],
        texts: Blob,
    ) -> None:
        self.people = people
        self.counts = counts
        self.names = names
        self.links = links
        self.values = values
        self.words = words
        self.entity_of = entity_of
        self.texts = texts
        self.first = dict(zip(TYPES, _starts(counts), strict=True))
        self._degrees: dict[int, Ints] = {}
        self._limits = tuple(_starts(counts)[1:])

    def __len__(self) -> int:
        return len(self.entity_of)

    @cached_property
    def document_of(self) -> npt.NDArray[np.int32]:
        """Document of each entity."""
        found = np.empty(len(self.entity_of), dtype=np.int32)
        found[self.entity_of] = np.arange(len(self.entity_of), dtype=np.int32)
        return found

    @cached_property
    def bundle(self) -> Bundle:
        """The universe as named arrays, which :meth:`from_bundle` reads."""
        arrays: dict[str, npt.NDArray[np.generic]] = {
            "names": self.names.data,
            "name_ends": self.names.ends,
            "texts": self.texts.data,
            "text_ends": self.texts.ends,
            "entity_of": self.entity_of,
        }
        for number, links in enumerate(self.links):
            arrays[f"objects_{number}"] = links.objects
            arrays[f"mine_{number}"] = links.mine.view(np.uint8)
            arrays[f"starts_{number}"] = links.starts
            arrays[f"subjects_{number}"] = links.subjects
        for number, values in enumerate(self.values):
            arrays[f"values_{number}"] = values
        meta = {"people": self.people, "counts": list(self.counts), "words": [list(words) for words in self.words]}
        return Bundle(KIND, meta, arrays)

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Universe:
        """Return the universe that is in a bundle."""
        arrays: Mapping[str, Any] = bundle.arrays
        made = schema()
        links = tuple(
            Links(
                arrays[f"objects_{number}"],
                arrays[f"mine_{number}"].view(np.bool_),
                arrays[f"starts_{number}"],
                arrays[f"subjects_{number}"],
            )
            for number in range(len(made.relations))
        )
        found = cls(
            bundle.meta["people"],
            tuple(bundle.meta["counts"]),
            Blob(arrays["names"], arrays["name_ends"]),
            links,
            tuple(arrays[f"values_{number}"] for number in range(len(made.attributes))),
            tuple(tuple(words) for words in bundle.meta["words"]),
            arrays["entity_of"],
            Blob(arrays["texts"], arrays["text_ends"]),
        )
        found.__dict__["bundle"] = bundle
        return found

    @property
    def digest(self) -> str:
        """SHA-256 of everything in it."""
        return self.bundle.digest

    def type_of(self, entity: int) -> str:
        """Return the type of an entity."""
        for name, limit in zip(TYPES, self._limits, strict=False):
            if entity < limit:
                return name
        return TYPES[-1]

    def name(self, entity: int) -> str:
        """Return the name of an entity."""
        return self.names.text(entity)

    def title(self, document: int) -> str:
        """Return the title of a document."""
        return self.names.text(self.entity_of.item(document))

    def text(self, document: int) -> str:
        """Return the text of a document, without its title."""
        return self.texts.text(document)

    def edges(self, direction: Direction, entity: int) -> list[Edge]:
        """Return the neighbours of an entity one way along a relation, ascending, with whose article says so."""
        item = direction.relation
        links = self.links[item.number]
        if direction.way == FORWARD:
            place = entity - self.first[item.subject]
            found = links.objects.item(place)
            if found < 0:
                return []
            return [(found, entity if links.mine.item(place) else found)]
        row, base = entity - self.first[item.object], self.first[item.subject]
        subjects = links.subjects[links.starts.item(row) : links.starts.item(row + 1)].tolist()
        mine = links.mine
        return [(subject, subject if mine.item(subject - base) else entity) for subject in subjects]

    def degree(self, direction: Direction, entity: int) -> int:
        """Return how many neighbours an entity has one way along a relation."""
        item = direction.relation
        links = self.links[item.number]
        if direction.way == FORWARD:
            return int(links.objects.item(entity - self.first[item.subject]) >= 0)
        row = entity - self.first[item.object]
        return links.starts.item(row + 1) - links.starts.item(row)

    def having(self, direction: Direction, degree: int) -> npt.NDArray[np.int32]:
        """Return the entities that have so many neighbours against a relation, ascending."""
        item = direction.relation
        counts = self._degrees.get(item.number)
        if counts is None:
            counts = self._degrees[item.number] = np.diff(self.links[item.number].starts)
        return (np.flatnonzero(counts == degree) + self.first[item.object]).astype(np.int32)

    def number(self, attribute: Attribute, entity: int) -> int | None:
        """Return the raw value of an attribute: a number, or the index of its word."""
        found = self.values[attribute.number].item(entity - self.first[attribute.type])
        return None if found < 0 else found

    def value(self, attribute: Attribute, entity: int) -> str | None:
        """Return the value of an attribute as it is written."""
        found = self.number(attribute, entity)
        if found is None:
            return None
        return str(found) if attribute.kind == "number" else self.words[attribute.number][found]

    def called(self, alias: str) -> int | None:
        """Return the entity of a byname."""
        return self._aliases.get(alias)

    @cached_property
    def _aliases(self) -> dict[str, int]:
        attribute = schema().attribute("alias")
        column = self.values[attribute.number]
        base, words = self.first[attribute.type], self.words[attribute.number]
        return {words[column.item(place)]: base + place for place in np.flatnonzero(column >= 0).tolist()}

    @cached_property
    def frequencies(self) -> tuple[Ints, ...]:
        """How many entities have each word of each attribute, by number; empty for numbers."""
        return tuple(
            np.bincount(column[column >= 0], minlength=len(words)).astype(np.int64) if words else _NONE
            for column, words in zip(self.values, self.words, strict=True)
        )


_NONE: Final = np.zeros(0, dtype=np.int64)


def links_of(
    relation: Relation, objects: npt.NDArray[np.int32], mine: Flags, first: int, size: int, base: int
) -> Links:
    """Return the facts of a relation with their inverse.

    Args:
        relation: The relation.
        objects: Object of each subject, or :data:`NOBODY`.
        mine: Whether it is the subject's article that says so.
        first: Number of the first object.
        size: How many objects there are.
        base: Number of the first subject.
    """
    if relation.symmetric:
        return Links(objects, mine, np.zeros(size + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
    having = np.flatnonzero(objects >= 0)
    owners = objects[having] - first
    order = np.argsort(owners, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=size)))).astype(np.int64)
    return Links(objects, mine, starts, (having[order] + base).astype(np.int32))


def _starts(counts: tuple[int, ...]) -> list[int]:
    found, total = [], 0
    for count in counts:
        found.append(total)
        total += count
    return found
