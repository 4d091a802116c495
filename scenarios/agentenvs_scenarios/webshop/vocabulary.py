"""The words of the generated shop (``vocabulary.toml``), read once into frozen tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from agentenvs_scenarios.webshop.model import PATH_MARK


@dataclass(frozen=True, slots=True)
class Value:
    """One attribute a product may have."""

    label: str
    say: str
    """A clause after "it" that names it."""
    ask: str
    """A clause after "it" that asks for it in other words."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing to choose."""

    name: str
    values: tuple[str, ...]
    few: int
    many: int
    step: int
    """Percent by which each further value costs more; 0 where all cost the same."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of product."""

    name: str
    also: tuple[str, ...]
    category: str
    aisle: str
    slots: tuple[tuple[Value, ...], ...]
    choices: tuple[Choice, ...]
    least: int
    most: int

    @property
    def path(self) -> str:
        """The path a product of this kind stands under."""
        return f"{self.aisle} {PATH_MARK} {self.name.title()}"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All of it."""

    kinds: tuple[Kind, ...]
    texts: Mapping[str, Mapping[str, Any]]
    """Templates by section: titles, descriptions, reviews, names, goals."""

    def kind(self, name: str) -> Kind:
        """Return a kind by its name."""
        return self.kinds[self.number(name)]

    def number(self, name: str) -> int:
        """Return the number of a kind; -1 where there is none."""
        return next((at for at, kind in enumerate(self.kinds) if kind.name == name), -1)

    def value(self, label: str) -> Value:
        """Return an attribute by its label."""
        return _values(self)[label]


@cache
def vocabulary() -> Vocabulary:
    """Return the vocabulary."""
    form = tomllib.loads(resources.files(__package__).joinpath("vocabulary.toml").read_text("utf-8"))
    slots = {name: tuple(Value(*row) for row in rows) for name, rows in form["slots"].items()}
    choices = {
        name: Choice(row["name"], tuple(row["values"]), row["few"], row["many"], row["step"])
        for name, row in form["choices"].items()
    }
    kinds = tuple(
        Kind(
            name=row["name"],
            also=tuple(row["also"]),
            category=row["category"],
            aisle=row["aisle"],
            slots=tuple(slots[name] for name in row["slots"]),
            choices=tuple(choices[name] for name in row["choices"]),
            least=row["price"][0],
            most=row["price"][1],
        )
        for row in form["kinds"]
    )
    texts = {name: form[name] for name in ("titles", "descriptions", "reviews", "names", "goals")}
    return Vocabulary(kinds, texts)


_known: dict[int, dict[str, Value]] = {}


def _values(words: Vocabulary) -> dict[str, Value]:
    found = _known.get(id(words))
    if found is None:
        found = {value.label: value for kind in words.kinds for slot in kind.slots for value in slot}
        _known[id(words)] = found
    return found
