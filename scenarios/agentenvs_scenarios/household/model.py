"""The nouns of the household and what is asked in it: frozen data that goes to JSON and back.

A :class:`Scenario` is one game: a room with receptacles at places, objects in receptacles, and a hidden goal behind a
task sentence. Receptacles, objects and places stand in *id order*, the order in which every list is printed: class
names alphabetical, numbers descending within a class. Everything refers to them by their index in that order.

``in`` and ``at`` are relations, not functions: an object may start in two receptacles or in none, and the place it is
*at* may differ from its receptacle's. Real games need all of that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, get_args

from agentenvs.core.canon import JSON, digest
from agentenvs.core.errors import DataError
from agentenvs.core.task import SECRET

TextVersion: TypeAlias = Literal["0.3", "0.4"]
TaskType: TypeAlias = Literal[
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
]

TEXT_VERSIONS: Final[tuple[TextVersion, ...]] = get_args(TextVersion)
TASK_TYPES: Final[tuple[TaskType, ...]] = get_args(TaskType)
"""In the order of their ids: ``TASK_TYPES[0]`` is task 1."""

FLAGS: Final = ("pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable", "container")
"""Permanent abilities of objects, in the order they are stored. A container (bowl, mug, plate …) hides its state."""

MAX_ITEMS: Final = 4096
"""More receptacles, objects or places than this is no household (real ones have at most about 70)."""

_NAME = re.compile(r"[a-z][a-z0-9_]* [1-9][0-9]{0,5}")
_CLASS = re.compile(r"[a-z][a-z0-9_]*")
_STATES: Final = ("clean", "hot", "cool", "sliced", "toggled")


@dataclass(frozen=True, slots=True)
class Receptacle:
    """Something that things lie in or on."""

    name: str
    """Class, blank, number: ``countertop 2``."""
    cls: str
    """Lower-case class: ``countertop``."""
    place: int = field(metadata=SECRET)
    """Index in :attr:`Scenario.places`; several receptacles may share one place."""
    openable: bool = field(default=False, metadata=SECRET)
    open: bool = field(default=False, metadata=SECRET)
    """Whether an openable one starts open; none does in the real games."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "cls": self.cls,
            "place": self.place,
            "openable": self.openable,
            "open": self.open,
        }


@dataclass(frozen=True, slots=True)
class Thing:
    """An object: something that lies in a receptacle and may be moved, used or just listed."""

    name: str = field(metadata=SECRET)
    """Class, blank, number: ``mug 1``."""
    cls: str = field(metadata=SECRET)
    """Lower-case class; empty for an object without one, which no receptacle takes and no goal means."""
    flags: tuple[str, ...] = field(default=(), metadata=SECRET)
    """Permanent abilities, a subset of :data:`FLAGS` in its order."""
    within: tuple[int, ...] = field(default=(), metadata=SECRET)
    """Indices of the receptacles it starts in, ascending: usually one, sometimes two, none if out of reach."""
    at: tuple[int, ...] = field(default=(), metadata=SECRET)
    """Indices of the places it is *at*; only slicing and ``look`` ask for it."""
    states: tuple[str, ...] = field(default=(), metadata=SECRET)
    """States that hold at the start: ``cool`` in some real games, else none."""
    contents: tuple[int, ...] = field(default=(), metadata=SECRET)
    """Indices of objects inside it, which ``examine`` lists; no action can reach or change them."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "cls": self.cls,
            "flags": list(self.flags),
            "within": list(self.within),
            "at": list(self.at),
            "states": list(self.states),
            "contents": list(self.contents),
        }


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked."""

    task: TaskType = field(metadata=SECRET)
    thing: str = field(metadata=SECRET)
    """Class of the object."""
    target: str = field(metadata=SECRET)
    """Class of the receptacle it goes to; of the lamp for ``look_at_obj_in_light``."""
    sentence: str
    """The task sentence a player reads, with its full stop."""

    @property
    def id(self) -> int:
        """Number of the task type, 1 to 6."""
        return TASK_TYPES.index(self.task) + 1

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return {"task": self.task, "thing": self.thing, "target": self.target, "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One game: the initial world and the goal."""

    name: str = field(metadata=SECRET)
    """A readable name; the field's names give goal and room away."""
    text_version: TextVersion
    places: tuple[str, ...] = field(metadata=SECRET)
    """``loc 7`` and so on, in id order; 0.3 text prints these."""
    start: int = field(metadata=SECRET)
    """Index of the place where the player starts."""
    receptacles: tuple[Receptacle, ...]
    """In id order; the room sentence tells their names, and no more."""
    things: tuple[Thing, ...] = field(metadata=SECRET)
    """In id order."""
    accepts: tuple[tuple[str, tuple[str, ...]], ...] = field(metadata=SECRET)
    """``(receptacle class, object classes it takes)``, sorted; only classes of this room."""
    goal: Goal
    _digest: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """SHA-256 over the canonical JSON of everything in the scenario, as 64 hexadecimal digits."""
        if not self._digest:
            self._digest.append(digest(self.to_json()))
        return self._digest[0]

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form, from which :meth:`from_json` makes an equal scenario."""
        return {
            "name": self.name,
            "text_version": self.text_version,
            "places": list(self.places),
            "start": self.start,
            "receptacles": [item.to_json() for item in self.receptacles],
            "things": [item.to_json() for item in self.things],
            "accepts": {cls: list(taken) for cls, taken in self.accepts},
            "goal": self.goal.to_json(),
        }

    @classmethod
    def from_json(cls, form: Mapping[str, JSON]) -> Scenario:
        """Read back what :meth:`to_json` wrote.

        Raises:
            DataError: A field is missing, has the wrong type, or refers to nothing.
        """
        try:
            made = cls(
                name=form["name"],
                text_version=form["text_version"],
                places=tuple(form["places"]),
                start=form["start"],
                receptacles=tuple(Receptacle(**item) for item in form["receptacles"]),
                things=tuple(_thing(item) for item in form["things"]),
                accepts=tuple(sorted((key, tuple(taken)) for key, taken in form["accepts"].items())),
                goal=Goal(**form["goal"]),
            )
            check(made)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(
                "this is no household scenario",
                why=f"{type(error).__name__}: {error}",
                fix="use the JSON that Scenario.to_json() writes",
            ) from error
        return made


def check(scenario: Scenario) -> None:
    """Check that names are names and every index refers to something.

    Raises:
        DataError: The scenario makes no sense; says where.
    """
    sizes = {"places": len(scenario.places), "receptacles": len(scenario.receptacles), "things": len(scenario.things)}
    for label, size in sizes.items():
        _require(0 < size <= MAX_ITEMS, scenario, f"it has {size} {label}")
    names = list(scenario.places)
    names += [receptacle.name for receptacle in scenario.receptacles]
    names += [thing.name for thing in scenario.things]
    _require(all(_NAME.fullmatch(name) for name in names), scenario, "a name is not 'class number'")
    _require(len(set(names)) == len(names), scenario, "a name stands for two things")
    _require(scenario.text_version in TEXT_VERSIONS, scenario, f"text version {scenario.text_version!r} is unknown")
    _require(scenario.goal.task in TASK_TYPES, scenario, f"task type {scenario.goal.task!r} is unknown")
    _require(_is_sentence(scenario.goal.sentence), scenario, "the task sentence is empty, long or of several lines")
    _check_references(scenario)


def _check_references(scenario: Scenario) -> None:
    places, receptacles, things = len(scenario.places), len(scenario.receptacles), len(scenario.things)
    _require(_index(scenario.start, places), scenario, "the start is no place")
    for receptacle in scenario.receptacles:
        fits = _index(receptacle.place, places) and bool(_CLASS.fullmatch(receptacle.cls))
        _require(fits, scenario, f"{receptacle.name} is at no place, or has no class")
        _require(receptacle.openable or not receptacle.open, scenario, f"{receptacle.name} is open and cannot be")
    for thing in scenario.things:
        refers = (
            _indices(thing.within, receptacles)
            and _indices(thing.at, places)
            and _indices(thing.contents, things)
            and set(thing.flags) <= set(FLAGS)
            and set(thing.states) <= set(_STATES)
        )
        _require(refers, scenario, f"{thing.name} refers to something that is not there")


def _index(value: Any, size: int) -> bool:
    return type(value) is int and 0 <= value < size


def _indices(values: tuple[Any, ...], size: int) -> bool:
    """Whether these are indices below ``size``, ascending and without repeats."""
    return all(_index(value, size) for value in values) and all(left < right for left, right in pairwise(values))


def _is_sentence(text: Any) -> bool:
    return isinstance(text, str) and 0 < len(text) <= 1000 and text.isprintable() and text == text.strip()


def _require(holds: bool, scenario: Scenario, why: str) -> None:
    if not holds:
        raise DataError(
            f"the household scenario {scenario.name!r} makes no sense",
            why=why,
            fix="mend the file it came from, or leave it out",
        )


def _thing(form: Mapping[str, Any]) -> Thing:
    return Thing(
        name=form["name"],
        cls=form["cls"],
        flags=tuple(form["flags"]),
        within=tuple(form["within"]),
        at=tuple(form["at"]),
        states=tuple(form["states"]),
        contents=tuple(form["contents"]),
    )
