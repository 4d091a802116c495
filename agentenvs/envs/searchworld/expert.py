"""The honest expert: understands the question, searches by name and by the articles' own words, and reads.

It sees what every player sees. What it has beforehand is the language: how questions are put and how articles state
things (``tables.toml``). For each name on the way it searches for the name, in tags, so that the best articles come
back whole. Where it has found nobody, or most of the articles held the name, so that there may be more of them, it goes
on with the name beside the words that another's article would use. When it knows an answer, it goes the same way again
with the searches that are left, and looks for more of everybody. What it has read it keeps, and believes that what it
did not find is not there. So it shows that questions can be answered within the budgets.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from agentenvs.core.errors import ContractError
from agentenvs.core.observation import Observation
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import Task
from agentenvs_scenarios.searchworld import phrases
from agentenvs_scenarios.searchworld.programs import Program
from agentenvs_scenarios.searchworld.reader import Reader
from agentenvs_scenarios.searchworld.schema import FORWARD

Doing: TypeAlias = "Generator[str, str, Any]"

_WHOLE: Final = re.compile(r"Doc \d+\(Title: (.*?)\) (.*)")
_IDLE: Final = "search: nothing"


class Shelf:
    """The articles that were read so far."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._articles: list[tuple[str, str]] = []

    def add(self, title: str, text: str) -> None:
        """Keep an article."""
        if title not in self._numbers:
            self._numbers[title] = len(self._articles)
            self._articles.append((title, text))

    def find(self, title: str) -> int | None:
        """Return the number of a title, or None."""
        return self._numbers.get(title)

    def title(self, document: int) -> str:
        """Return the title of an article."""
        return self._articles[document][0]

    def text(self, document: int) -> str:
        """Return the text of an article."""
        return self._articles[document][1]

    def mentions(self, name: str) -> list[int]:
        """Return the articles that hold a name."""
        return [number for number, (_, text) in enumerate(self._articles) if name in text]


class Expert:
    """Searches its way along the question."""

    wants: ClassVar[Mapping[str, Any]] = {"results": 10}

    def reset(self, spec: EnvSpec, task: Task) -> None:
        """Understand the question."""
        self._shelf = Shelf()
        self._reader = Reader(self._shelf)
        self._asked: dict[str, bool] = {}
        self._running: Doing = self._plan(phrases.read(task.instruction))
        self._begun = False

    def act(self, observation: Observation) -> Any:
        """Return the next search, or the answer."""
        self._left = observation.budgets.get("searches", 1)
        try:
            if self._begun:
                return self._running.send(observation.text)
            self._begun = True
            return next(self._running)
        except StopIteration:
            return _IDLE

    def _plan(self, program: Program | None) -> Doing:
        answers: list[str] = []
        if program is not None:
            for self._is_hasty in (True, False):
                yield from self._learn(program)
            answers = list(self._reader.answers(program))
        yield {"tool": "answer", "arguments": {"answers": answers}}  # type: ignore[misc]

    def _learn(self, program: Program) -> Doing:
        """Read what it takes to say what a program comes to."""
        kind = program[0]
        if kind == "called":
            yield from self._search(program[1])
        elif kind in ("step", "count"):
            yield from self._learn(program[3])
            yield from self._follow(program)
        elif kind == "value":
            yield from self._learn(program[2])
            yield from self._open(program[2])
        elif kind == "pick":
            for side in program[3:]:
                yield from self._learn(side)
                yield from self._open(side)
        elif kind == "where":
            yield from self._learn(program[2])
            yield from self._open(program[2])
        elif kind == "both":
            yield from self._meet(program)

    def _meet(self, program: Program) -> Doing:
        """Find who is in two sets: search for both sources at once, then see which of them say so."""
        first, second = program[1], program[2]
        for side in (first, second):
            yield from self._learn(side[3])
        for left in self._reached(first[3]):
            for right in self._reached(second[3]):
                yield from self._search(f"{left} {right}")
        if not self._reached(program):
            for side in (first, second):
                yield from self._follow(side)
            yield from self._open(first if len(self._reached(first)) <= len(self._reached(second)) else second)

    def _follow(self, program: Program) -> Doing:
        """Find the neighbours of everybody reached: by name, then by each way in which another may tell of it.

        One is enough where a relation has no more than one; of others every way is tried, at first where it is likely
        that more of them are to be found, and then anyway.
        """
        relation, way = program[1], program[2]
        for name in self._reached(program[3]):
            is_rare = yield from self._search(name, name)
            for words in phrases.others_words(relation, way):
                is_enough = way == FORWARD or (is_rare and self._is_hasty)
                if is_enough and self._reached(("step", relation, way, ("entity", name))):
                    break
                yield from self._search(f"{name} {words}")

    def _open(self, program: Program) -> Doing:
        """See the own article of everybody a program comes to."""
        for name in self._reached(program):
            if self._shelf.find(name) is None:
                yield from self._search(name)

    def _reached(self, program: Program) -> tuple[str, ...]:
        if program[0] == "entity":
            return (program[1],)
        try:
            return self._reader.answers(program)
        except ContractError:  # an article in nobody's wording
            return ()

    def _search(self, query: str, name: str = "") -> Doing:
        """Search, and return whether so few of what was found hold a name that all that do will have been seen."""
        if query in self._asked or not self._left:
            return self._asked.get(query, False)
        seen = yield f"<search>{query}</search>"
        found = _WHOLE.findall(seen.replace("</information>", ""))
        for title, text in found:
            self._shelf.add(title, text)
        holding = sum(name == title or name in text for title, text in found)
        self._asked[query] = 2 * holding <= len(found)
        return self._asked[query]
