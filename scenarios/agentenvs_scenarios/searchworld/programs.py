"""What a question asks, as a program: built, evaluated by propagating sets, and put into words.

A program is a nested tuple that goes to JSON as nested lists:

    ("entity", name)                      somebody or something by name
    ("called", byname)                    whoever answers to a byname
    ("step", relation, way, program)      the neighbours of a set; way 0 is forward, 1 inverse
    ("value", attribute, program)         the values of a set
    ("count", relation, way, program)     how many neighbours the one member of a set has
    ("pick", attribute, which, a, b)      of two, the one with the least (0) or the most (1) of an attribute
    ("where", filters, program)           those of a set that hold to all filters, each
                                          ("range", attribute, low, high), numbers, or
                                          ("letters", attribute, low, high), first letters; both ends count
    ("both", a, b)                        those in two sets

:func:`run` is one of the two methods that must agree on every answer; the other reads the articles
(:mod:`agentenvs_scenarios.searchworld.reader`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from agentenvs_scenarios.searchworld.schema import FORWARD, INVERSE, TYPES, Direction, directions, schema
from agentenvs_scenarios.searchworld.universe import Universe

Program: TypeAlias = tuple[Any, ...]

NOTHING_LEFT_OUT: Final = -1


class Result(NamedTuple):
    """What a program comes to."""

    values: tuple[str, ...]
    """Names, values or a number as written, sorted."""
    read: frozenset[int]
    """Entities whose articles state what was used."""


def direction(relation: str, way: int) -> Direction:
    """Return a relation walked one way, by name."""
    item = schema().relation(relation)
    source = item.subject if way == FORWARD or item.symmetric else item.object
    return next(found for found in directions()[source] if found.relation is item and found.way == way)


class Names:
    """Entities by name, for one universe.

    Args:
        universe: The universe.
    """

    def __init__(self, universe: Universe) -> None:
        names = universe.names
        text, starts = names.data.tobytes().decode(), [0, *names.ends.tolist()]
        self._numbers = {text[low:high]: number for number, (low, high) in enumerate(pairwise(starts))}

    def number(self, name: str) -> int:
        """Return the entity of a name.

        Raises:
            KeyError: There is none.
        """
        return self._numbers[name]

    def find(self, name: str) -> int | None:
        """Return the entity of a name, or None."""
        return self._numbers.get(name)


class Runner:
    """Evaluates programs by propagating sets of entities through the columns.

    Args:
        universe: The universe.
        number: Entity of a name.
        without: An entity whose article is left out, as if it had never been written.
    """

    def __init__(self, universe: Universe, number: Callable[[str], int], without: int = NOTHING_LEFT_OUT) -> None:
        self._universe = universe
        self._number = number
        self._without = without
        self._read: set[int] = set()

    def run(self, program: Program) -> Result:
        """Return what a program comes to."""
        kind = program[0]
        if kind == "value":
            values = {self._universe.value(schema().attribute(program[1]), entity) for entity in self._told(program)}
            return self._result(str(value) for value in values if value is not None)
        if kind == "count":
            subjects = self._set(program[3])
            return self._result([str(len(self._step(program[1], program[2], subjects)))] if len(subjects) == 1 else [])
        return self._result(self._universe.name(entity) for entity in self._set(program))

    def _result(self, values: Any) -> Result:
        return Result(tuple(sorted(values)), frozenset(self._read))

    def _set(self, program: Program) -> set[int]:
        return _SETS[program[0]](self, program)

    def _entity(self, program: Program) -> set[int]:
        return {self._number(program[1])}

    def _called(self, program: Program) -> set[int]:
        found = self._universe.called(program[1])
        return set() if found is None or not self._reads(found) else {found}

    def _walk(self, program: Program) -> set[int]:
        return self._step(program[1], program[2], self._set(program[3]))

    def _step(self, relation: str, way: int, sources: set[int]) -> set[int]:
        along, found = direction(relation, way), set()
        for source in sources:
            for target, article in self._universe.edges(along, source):
                if self._reads(article):
                    found.add(target)
        return found

    def _told(self, program: Program) -> list[int]:
        """Return the members of the set of a ``value`` program whose articles may be read."""
        return [entity for entity in sorted(self._set(program[2])) if self._reads(entity)]

    def _pick(self, program: Program) -> set[int]:
        _, name, which, *sides = program
        ranked = []
        for side in sides:
            members = self._set(side)
            value = self._value(name, next(iter(members))) if len(members) == 1 else None
            if value is None:
                return set()
            ranked.append((value, *members))
        ranked.sort()
        return set() if ranked[0][0] == ranked[1][0] else {ranked[-which][1]}

    def _where(self, program: Program) -> set[int]:
        return {entity for entity in self._set(program[2]) if all(self._holds(test, entity) for test in program[1])}

    def _holds(self, test: Program, entity: int) -> bool:
        value = self._value(test[1], entity)
        if value is None:
            return False
        if test[0] == "range":
            return bool(test[2] <= value <= test[3])
        words = self._universe.words[schema().attribute(test[1]).number]
        return bool(test[2] <= words[value][0] <= test[3])

    def _value(self, attribute: str, entity: int) -> int | None:
        return self._universe.number(schema().attribute(attribute), entity) if self._reads(entity) else None

    def _both(self, program: Program) -> set[int]:
        """Intersect; only what states the last step to those in both is used."""
        before = set(self._read)
        found = self._set(program[1]) & self._set(program[2])
        self._read = before
        for side in program[1:]:
            sources = self._set(side[3])
            for source in sources:
                edges = self._universe.edges(direction(side[1], side[2]), source)
                self._read.update(article for target, article in edges if target in found)
        return found

    def _reads(self, article: int) -> bool:
        if article == self._without:
            return False
        self._read.add(article)
        return True


_SETS: Final[dict[str, Callable[[Runner, Program], set[int]]]] = {
    "entity": Runner._entity,
    "called": Runner._called,
    "step": Runner._walk,
    "pick": Runner._pick,
    "where": Runner._where,
    "both": Runner._both,
}


def run(universe: Universe, names: Names, program: Program, without: int = NOTHING_LEFT_OUT) -> Result:
    """Return what a program comes to, with one article left out where ``without`` is an entity."""
    return Runner(universe, names.number, without).run(program)


def supports(universe: Universe, names: Names, program: Program, result: Result) -> tuple[int, ...]:
    """Return the entities whose articles are needed: without any one of them the answer is another."""
    return tuple(
        article for article in sorted(result.read) if run(universe, names, program, article).values != result.values
    )


def crowd(universe: Universe, tests: Iterable[Program]) -> int:
    """Return how many of a universe hold to some constraints, whoever they are tied to."""
    held: Any = True
    for kind, name, low, high in tests:
        attribute = schema().attribute(name)
        column: Any = universe.values[attribute.number]
        if kind == "letters":
            fits = [low <= word[0] <= high for word in universe.words[attribute.number]]
            held = held & np.array([*fits, False])[column]  # who has none, -1, is at the end
        else:
            held = held & (low <= column) & (column <= high)
    return int(np.count_nonzero(held))


def tuples(form: Any) -> Any:
    """Return nested lists, as JSON has them, as nested tuples."""
    return tuple(tuples(item) for item in form) if isinstance(form, list | tuple) else form


# ---- words ---------------------------------------------------------------------------------------------------------


def target_type(program: Program) -> str:
    """Return the type of what a program asks for, where it asks for entities by a relation."""
    if program[0] == "step":
        return direction(program[1], program[2]).target
    return target_type(program[1] if program[0] == "both" else program[2]) if program[0] in ("both", "where") else ""


def question(program: Program) -> str:
    """Return a program as a question."""
    return _QUESTIONS[program[0]](program)


def phrase(program: Program) -> str:
    """Return a program as the noun phrase of a question."""
    if program[0] == "entity":
        return _name(program[1])
    if program[0] == "called":
        return f"the person called {program[1]}"
    return f"the {direction(program[1], program[2]).phrase} {phrase(program[3])}"


def _name(name: str) -> str:
    """Return a name as it stands in a sentence."""
    return f"the {name}" if name.rpartition(" ")[2] in _article_words() else name


def _article_words() -> frozenset[str]:
    forms = [form for kind in TYPES if kind not in ("person", "settlement") for form in schema().kinds[kind].forms]
    return frozenset(form.rpartition(" ")[2] for form in forms)


def _ask_step(program: Program) -> str:
    along = direction(program[1], program[2])
    who = "Who" if along.target == "person" else "Which"
    verb = "are" if along.way == INVERSE else "is"
    return f"{who} {verb} {phrase(program)}?"


def _ask_value(program: Program) -> str:
    return f"What is the {schema().attribute(program[1]).phrase} {phrase(program[2])}?"


def _ask_count(program: Program) -> str:
    return f"How many {direction(program[1], program[2]).phrase} {phrase(program[3])} are there?"


def _ask_pick(program: Program) -> str:
    _, attribute, which, first, second = program
    return schema().compare[attribute][which].format(a=phrase(first), b=phrase(second))


def _ask_where(program: Program) -> str:
    tests = [_test(test) for test in program[1]]
    return f"Which of {phrase(program[2])} {' and '.join(tests)}?"


def _test(test: Program) -> str:
    return schema().filters[test[1]].format(low=test[2], high=test[3])


def _ask_both(program: Program) -> str:
    who = "Who" if target_type(program) == "person" else "Which"
    return f"{who} is among {phrase(program[1])} and also among {phrase(program[2])}?"


_QUESTIONS: Final[dict[str, Callable[[Program], str]]] = {
    "step": _ask_step,
    "value": _ask_value,
    "count": _ask_count,
    "pick": _ask_pick,
    "where": _ask_where,
    "both": _ask_both,
}
