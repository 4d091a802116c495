"""The schema of every universe: types, relations, attributes and the sentences that state them (``tables.toml``).

A relation is functional (each subject has one object at most) and is stated once, in one article: its subject's
(*mine*) or its object's (*theirs*). A :class:`Sentence` is one way to state one side of it; its words around the other
entity's name belong to nothing else, so a sentence can be read back.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, Final, NamedTuple

TYPES: Final = ("person", "settlement", "guild", "event", "artefact")
"""In the order in which entities are numbered."""

ME: Final = "{me}"
IT: Final = "{it}"
FORWARD: Final = 0
INVERSE: Final = 1


class Kind(NamedTuple):
    """A type of entity."""

    name: str
    share: int
    """One entity for each so many people."""
    noun: str
    forms: tuple[str, ...]
    """How names are formed from invented words."""


class Relation(NamedTuple):
    """A relation; ``tables.toml`` says what each field means."""

    number: int
    name: str
    subject: str
    object: str
    forward: str
    """Phrase for the object: ``mentor of``."""
    inverse: str
    """Phrase for the subjects: ``pupils of``."""
    cover: int
    own: int
    most: int
    draw: str
    symmetric: bool
    mine: tuple[str, ...]
    theirs: tuple[str, ...]


class Attribute(NamedTuple):
    """An attribute; its value is an invented word, a number, or a name of its own (alias)."""

    number: int
    name: str
    type: str
    kind: str
    cover: int
    phrase: str
    values: int
    mine: tuple[str, ...]


class Sentence(NamedTuple):
    """One way to state something, in pieces: before the first name, which name, between, which name, and after."""

    head: str
    first: str
    """:data:`ME`, :data:`IT` or nothing."""
    middle: str
    second: str
    tail: str


class Direction(NamedTuple):
    """A relation walked one way: forward from its subject, inverse from its object."""

    relation: Relation
    way: int
    source: str
    target: str
    phrase: str


class Syllables(NamedTuple):
    """What words are made of."""

    plain: tuple[str, ...]
    clusters: tuple[str, ...]
    vowels: tuple[str, ...]
    pairs: tuple[str, ...]
    codas: tuple[str, ...]
    crude: tuple[str, ...]
    """Letters that no word holds one after another."""


class Schema(NamedTuple):
    """All of it."""

    sounds: Syllables

    kinds: Mapping[str, Kind]
    relations: tuple[Relation, ...]
    attributes: tuple[Attribute, ...]
    compare: Mapping[str, tuple[str, ...]]
    """Attribute -> questions for the least and the most."""
    filters: Mapping[str, str]
    """Attribute -> how a constraint on it is put."""
    fillers: tuple[str, ...]
    length: int
    """Characters an article has at least."""
    first_year: int
    last_year: int

    def relation(self, name: str) -> Relation:
        """Return a relation by name."""
        return next(relation for relation in self.relations if relation.name == name)

    def attribute(self, name: str) -> Attribute:
        """Return an attribute by name."""
        return next(attribute for attribute in self.attributes if attribute.name == name)


@lru_cache(maxsize=1)
def schema() -> Schema:
    """Return the schema."""
    text = resources.files("agentenvs_scenarios.searchworld").joinpath("tables.toml").read_text("utf-8")
    form = tomllib.loads(text)
    return Schema(
        sounds=Syllables(*(tuple(form["sounds"][name]) for name in Syllables._fields)),
        kinds={name: _kind(name, form["types"][name]) for name in TYPES},
        relations=tuple(_relation(number, row) for number, row in enumerate(form["relations"])),
        attributes=tuple(_attribute(number, row) for number, row in enumerate(form["attributes"])),
        compare={name: tuple(pair) for name, pair in form["compare"].items()},
        filters=dict(form["filters"]),
        fillers=tuple(form["filler"]["sentences"]),
        length=form["filler"]["length"],
        first_year=form["calendar"]["first"],
        last_year=form["calendar"]["last"],
    )


@lru_cache(maxsize=1)
def directions() -> Mapping[str, tuple[Direction, ...]]:
    """Return the ways out of each type of entity."""
    found: dict[str, list[Direction]] = {name: [] for name in TYPES}
    for item in schema().relations:
        found[item.subject].append(Direction(item, FORWARD, item.subject, item.object, item.forward))
        if not item.symmetric:
            found[item.object].append(Direction(item, INVERSE, item.object, item.subject, item.inverse))
    return {name: tuple(ways) for name, ways in found.items()}


def reverse(direction: Direction) -> Direction:
    """Return the same relation walked the other way."""
    item = direction.relation
    if item.symmetric:
        return direction
    way = INVERSE if direction.way == FORWARD else FORWARD
    phrase = item.inverse if way == INVERSE else item.forward
    return Direction(item, way, direction.target, direction.source, phrase)


def sentence(template: str) -> Sentence:
    """Return a template in pieces."""
    head, first, rest = _first(template)
    middle, second, tail = _first(rest)
    return Sentence(head, first, middle, second, tail)


def _first(text: str) -> tuple[str, str, str]:
    places = [(text.index(mark), mark) for mark in (ME, IT) if mark in text]
    if not places:
        return text, "", ""
    place, mark = min(places)
    return text[:place], mark, text[place + len(mark) :]


def _kind(name: str, row: Mapping[str, Any]) -> Kind:
    return Kind(name, row["share"], row["noun"], tuple(row["forms"]))


def _relation(number: int, row: Mapping[str, Any]) -> Relation:
    symmetric = bool(row.get("symmetric", False))
    mine = tuple(row["mine"])
    return Relation(
        number=number,
        name=row["name"],
        subject=row["subject"],
        object=row["object"],
        forward=row["forward"],
        inverse=row["inverse"],
        cover=row["cover"],
        own=row["own"],
        most=row["most"],
        draw=row["draw"],
        symmetric=symmetric,
        mine=mine,
        theirs=mine if symmetric else tuple(row["theirs"]),
    )


def _attribute(number: int, row: Mapping[str, Any]) -> Attribute:
    return Attribute(
        number=number,
        name=row["name"],
        type=row["type"],
        kind=row["kind"],
        cover=row["cover"],
        phrase=row["phrase"],
        values=row.get("values", 0),
        mine=tuple(row["mine"]),
    )
