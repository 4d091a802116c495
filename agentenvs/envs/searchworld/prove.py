"""Proves a proposed question: every gate it must pass before anybody is asked it.

A proof stands beside the scenario and is no part of its digest. The gates:

* two methods agree: sets propagated through the columns, and a reader that knows the articles alone;
* it has one to five answers, or none where it is meant to have none;
* every supporting article is needed: without it the answer is another; and there are as many as it has hops;
* nobody is on the way twice, and neither does the anchor's article name the answer nor the other way round;
* the question does not hold its answer;
* where it is graded, one search or two do not answer it (:mod:`agentenvs.envs.searchworld.shortcuts`), and so many hold
  to its constraints that nobody finds the answer by them alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from agentenvs.core.canon import JSON
from agentenvs.envs.searchworld import shortcuts
from agentenvs.envs.searchworld.holdings import Holding, UniverseShelf
from agentenvs.envs.searchworld.library import Library
from agentenvs_scenarios.searchworld import programs
from agentenvs_scenarios.searchworld.answers import holds
from agentenvs_scenarios.searchworld.ladder import GRADED
from agentenvs_scenarios.searchworld.programs import Program, Result
from agentenvs_scenarios.searchworld.questions import MOST_ANSWERS, Draft

LEAST_CROWD = 20
"""How many of a universe hold to the constraints of a graded question, at least."""
MOST_SUPPORTS = 40
"""Articles a question may rest on; all of them can be opened within the usual limit of steps."""


class Proof(NamedTuple):
    """What was found out about a question."""

    answers: tuple[str, ...]
    supports: tuple[int, ...]
    """Entities whose articles are needed."""
    faults: tuple[str, ...]
    """Gates it does not pass; none for a question that may be asked."""

    @property
    def holds(self) -> bool:
        """Whether it may be asked."""
        return not self.faults

    def to_json(self) -> dict[str, JSON]:
        """Return what is stored with a task: each gate and whether it was passed."""
        return {gate: gate not in self.faults for gate in GATES}


GATES = ("methods", "answers", "deletion", "hops", "loops", "silence", "constraints", "one-query", "two-query")
"""Names of the gates."""


def prove(holding: Holding, draft: Draft, sentence: str) -> Proof:
    """Return the proof of a draft.

    Args:
        holding: The universe.
        draft: What is proposed.
        sentence: Its question.
    """
    shelf = holding.shelf
    if shelf is None:
        return Proof((), (), GATES)
    result = programs.run(shelf.universe, shelf.names, draft.program)
    needed = _needed(shelf, draft, result)
    faults = [*_of_answers(holding, draft, result, sentence), *_of_way(holding, draft, result, needed)]
    if not faults and draft.hops >= GRADED:
        faults += _of_shortcuts(holding.library, result.values, sentence)
    return Proof(result.values, needed, tuple(faults))


def par(supports: int) -> int:
    """Return the fewest turns in which somebody who guesses nothing answers: each article opened, then the answer."""
    return supports + 1


def _needed(shelf: UniverseShelf, draft: Draft, result: Result) -> tuple[int, ...]:
    """Return the entities whose articles are needed.

    Of a question that nothing answers, these are what leads to the last entity, and that one's own, in which it is not.
    """
    universe, names = shelf.universe, shelf.names
    if draft.answerable:
        return programs.supports(universe, names, draft.program, result)
    inner: Program = draft.program[3]
    last = programs.run(universe, names, inner)
    way = programs.supports(universe, names, inner, last)
    return tuple(sorted({*way, *(names.number(name) for name in last.values)}))


def _of_answers(holding: Holding, draft: Draft, result: Result, sentence: str) -> Iterable[str]:
    if holding.reader.answers(draft.program) != result.values:
        yield "methods"
    if not (1 <= len(result.values) <= MOST_ANSWERS if draft.answerable else not result.values):
        yield "answers"
    if any(holds(sentence, answer) for answer in result.values):
        yield "silence"
    if draft.hops >= GRADED and draft.program[0] == "where" and _is_told(holding, draft.program[1]):
        yield "constraints"


def _is_told(holding: Holding, tests: Program) -> bool:
    """Return whether few enough hold to the constraints to be looked for by them."""
    return holding.shelf is not None and programs.crowd(holding.shelf.universe, tests) < LEAST_CROWD


def _of_way(holding: Holding, draft: Draft, result: Result, needed: tuple[int, ...]) -> Iterable[str]:
    if not needed:
        yield "deletion"
    if not draft.hops <= len(needed) <= MOST_SUPPORTS:
        yield "hops"
    if draft.hops >= GRADED and _is_near(holding, draft, result):
        yield "loops"


def _is_near(holding: Holding, draft: Draft, result: Result) -> bool:
    """Return whether an anchor is an answer, or the article of one names the other."""
    answers = set(result.values)
    for anchor in _anchors(draft.program):
        if anchor in answers or answers & set(_named(holding, anchor)):
            return True
        if any(anchor in _named(holding, answer) for answer in answers):
            return True
    return False


def _named(holding: Holding, name: str) -> Iterable[str]:
    number = holding.library.find(name)
    return () if number is None else [item.other for item in holding.reader.statements(number)]


def _anchors(program: Program) -> Iterable[str]:
    if program[0] in ("entity", "called"):
        yield program[1]
    for part in program[1:]:
        if isinstance(part, tuple) and part and isinstance(part[0], str):
            yield from _anchors(part)


def _of_shortcuts(library: Library, answers: tuple[str, ...], sentence: str) -> Iterable[str]:
    for query in shortcuts.queries(sentence):
        yield from _of_query(library, answers, sentence, query)


def _of_query(library: Library, answers: tuple[str, ...], sentence: str, query: str) -> Iterable[str]:
    first = shortcuts.one_query(library, query)
    titles = [library.title(number) for number in first]
    if _gets(library, first, titles, answers, sentence):
        yield "one-query"
    second = shortcuts.one_query(library, shortcuts.second_query(titles, sentence))
    more = [library.title(number) for number in second]
    if _gets(library, second, [*titles, *more], answers, sentence):
        yield "two-query"


def _gets(library: Library, found: list[int], titles: list[str], answers: tuple[str, ...], sentence: str) -> bool:
    said = shortcuts.guess(sentence, [(library.title(number), library.text(number)) for number in found])
    counted = sentence.startswith("How many")
    return not counted and (sorted(said) == list(answers) or shortcuts.leaked(titles, answers)) and bool(answers)
