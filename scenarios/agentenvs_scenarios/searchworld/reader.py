"""Answers questions by reading: the second of the two methods that must agree, which knows articles and nothing else.

An article is cut into sentences, each sentence is matched with the wordings of ``tables.toml``, and a fact is believed
where an article says so. A program is evaluated over what is read in the article of a name and in all that mention it;
no column of the universe is looked at, so an answer that both methods give can be found by a player too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from agentenvs.core.errors import ContractError
from agentenvs_scenarios.searchworld.programs import Program
from agentenvs_scenarios.searchworld.schema import FORWARD, IT, ME, schema

MOST_REMEMBERED: Final = 8_000
"""Articles a reader keeps in mind."""

_SELF: Final = "\0"
"""Stands for the name of what an article is about."""
_KEY: Final = 7
"""Characters that wordings are looked up by; no wording has fewer before the other name."""


class Shelf(Protocol):
    """Articles to read."""

    def find(self, title: str) -> int | None:
        """Return the document of a title, or None."""

    def title(self, document: int) -> str:
        """Return the title of a document."""

    def text(self, document: int) -> str:
        """Return the text of a document."""

    def mentions(self, name: str) -> Iterable[int]:
        """Return the documents that hold all words of a name."""


class Statement(NamedTuple):
    """What a sentence says."""

    name: str
    """Of the relation or attribute."""
    mine: bool
    """Whether the article's own entity is the subject."""
    other: str
    """The other entity, or the value."""


class _Wording(NamedTuple):
    head: str
    tail: str
    name: str
    mine: bool


class Fact(NamedTuple):
    """A fact, and the article that states it."""

    subject: str
    name: str
    value: str
    document: int


def parse(title: str, text: str) -> tuple[Statement, ...]:
    """Return what an article states, in order; sentences that say nothing are left out.

    Raises:
        ContractError: A sentence is none of ours.
    """
    found = []
    wordings, fillers = _wordings()
    for line in text.removesuffix(".").split(". "):
        sentence = _marked(line + ".", title)
        if sentence in fillers:
            continue
        statement = _matched(sentence, wordings)
        if statement is None:
            raise ContractError(f"a sentence of the article {title!r} cannot be read back: {line!r}")
        found.append(statement)
    return tuple(found)


def _matched(sentence: str, wordings: dict[str, list[_Wording]]) -> Statement | None:
    for head, tail, name, mine in wordings.get(sentence[:_KEY], ()):
        if sentence.startswith(head) and sentence.endswith(tail):
            return Statement(name, mine, sentence[len(head) : len(sentence) - len(tail)])
    return None


def _marked(line: str, title: str) -> str:
    """Return a sentence with the article's own name marked, where it stands as a whole."""
    place = line.find(title)
    while place >= 0:
        end = place + len(title)
        if not line[end].isalpha():
            return line[:place] + _SELF + line[end:]
        place = line.find(title, end)
    return line


@lru_cache(maxsize=1)
def _wordings() -> tuple[dict[str, list[_Wording]], frozenset[str]]:
    """Return all wordings by how they begin, the longest first, and the sentences that say nothing."""
    made, found = schema(), []
    for relation in made.relations:
        sides = ((relation.mine, True), (() if relation.symmetric else relation.theirs, False))
        found += [(text, relation.name, mine) for texts, mine in sides for text in texts]
    found += [(text, attribute.name, True) for attribute in made.attributes for text in attribute.mine]
    wordings: dict[str, list[_Wording]] = {}
    for text, name, mine in found:
        head, tail = text.replace(ME, _SELF).split(IT)
        wordings.setdefault(head[:_KEY], []).append(_Wording(head, tail, name, mine))
    for group in wordings.values():
        group.sort(key=lambda wording: (-len(wording.head), -len(wording.tail), wording))
    return wordings, frozenset(made.fillers)


class Reader:
    """Evaluates programs over articles; remembers what it has read.

    Args:
        shelf: The articles.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._read: dict[int, tuple[Statement, ...]] = {}

    def statements(self, document: int) -> tuple[Statement, ...]:
        """Return what a document states."""
        found = self._read.get(document)
        if found is None:
            if len(self._read) >= MOST_REMEMBERED:
                self._read.clear()
            found = self._read[document] = parse(self._shelf.title(document), self._shelf.text(document))
        return found

    def facts(self, document: int) -> list[Fact]:
        """Return the facts a document states."""
        title = self._shelf.title(document)
        return [
            Fact(title, name, other, document) if mine else Fact(other, name, title, document)
            for name, mine, other in self.statements(document)
        ]

    def answers(self, program: Program) -> tuple[str, ...]:
        """Return what a program comes to, sorted."""
        kind = program[0]
        if kind == "value":
            return tuple(
                sorted({value for name in self._names(program[2]) for value in self._values(name, program[1])})
            )
        if kind == "count":
            subjects = self._names(program[3])
            if len(subjects) != 1:
                return ()
            return (str(len(self._neighbours(subjects[0], program[1], program[2]))),)
        return tuple(sorted(self._names(program)))

    def _names(self, program: Program) -> Sequence[str]:
        return sorted(_READ[program[0]](self, program))

    def _entity(self, program: Program) -> set[str]:
        return {program[1]} if self._shelf.find(program[1]) is not None else set()

    def _called(self, program: Program) -> set[str]:
        said = (fact for document in self._shelf.mentions(program[1]) for fact in self.facts(document))
        return {fact.subject for fact in said if fact.name == "alias" and fact.value == program[1]}

    def _step(self, program: Program) -> set[str]:
        _, relation, way, inner = program
        return {other for name in self._names(inner) for other in self._neighbours(name, relation, way)}

    def _pick(self, program: Program) -> set[str]:
        _, attribute, which, first, second = program
        found: list[tuple[int, str]] = []
        for side in (first, second):
            names = self._names(side)
            values = self._values(names[0], attribute) if len(names) == 1 else []
            if len(values) != 1:
                return set()
            found.append((int(values[0]), names[0]))
        if found[0][0] == found[1][0]:
            return set()
        return {max(found)[1] if which else min(found)[1]}

    def _where(self, program: Program) -> set[str]:
        _, tests, inner = program
        return {name for name in self._names(inner) if all(self._holds(name, test) for test in tests)}

    def _holds(self, name: str, test: Program) -> bool:
        values = self._values(name, test[1])
        if test[0] == "range":
            return any(test[2] <= int(value) <= test[3] for value in values)
        return any(test[2] <= value[0] <= test[3] for value in values)

    def _both(self, program: Program) -> set[str]:
        return set(self._names(program[1])).intersection(self._names(program[2]))

    def _neighbours(self, name: str, relation: str, way: int) -> set[str]:
        """Return who stands in a relation to a name, by its own article and all that mention it."""
        symmetric = schema().relation(relation).symmetric
        found = set()
        for fact in self._about(name):
            if fact.name != relation:
                continue
            if fact.subject == name and (way == FORWARD or symmetric):
                found.add(fact.value)
            elif fact.value == name and (way != FORWARD or symmetric):
                found.add(fact.subject)
        return found

    def _values(self, name: str, attribute: str) -> list[str]:
        document = self._shelf.find(name)
        if document is None:
            return []
        return [item.other for item in self.statements(document) if item.name == attribute]

    def _about(self, name: str) -> Iterable[Fact]:
        own = self._shelf.find(name)
        documents = set(self._shelf.mentions(name)) | (set() if own is None else {own})
        for document in sorted(documents):
            yield from (fact for fact in self.facts(document) if name in (fact.subject, fact.value))


_READ: Final[dict[str, Callable[[Reader, Program], set[str]]]] = {
    "entity": Reader._entity,
    "called": Reader._called,
    "step": Reader._step,
    "pick": Reader._pick,
    "where": Reader._where,
    "both": Reader._both,
}
