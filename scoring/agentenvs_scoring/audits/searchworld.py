"""The search worlds' audit: an answer is a set, more of what is wrong earns no more, and evidence is counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from agentenvs.core.canon import JSON
from agentenvs_scenarios.searchworld.answers import key
from agentenvs_scenarios.searchworld.model import Question, Scenario
from agentenvs_scoring.audits import Audit, Facts, Relation
from agentenvs_scoring.searchworld import SINGLE


def _answer(facts: Facts) -> list[Any]:
    listed = facts.get("answer")
    return list(listed) if isinstance(listed, list | tuple) else []


def _same_words(_: Scenario, facts: Facts) -> Iterator[Facts]:
    listed = _answer(facts)
    texts = [text for text in listed if isinstance(text, str)]
    if texts and len(texts) == len(listed):
        yield from ({**facts, "answer": listed[::-1]}, {**facts, "answer": [*listed, *listed]})
        yield {**facts, "answer": [f"  the {text.upper()}. " for text in texts]}


def _more_wrong(scenario: Scenario, facts: Facts) -> Iterator[Facts]:
    listed = _answer(facts)
    right = {key(text) for spellings in scenario.question.answers for text in spellings}
    wrong = [text for text in ("somebody wrong", "nowhere", "42") if key(text) not in right]
    if facts.get("answer") is not None and listed:
        yield from ({**facts, "answer": [*listed, *wrong[:number]]} for number in range(1, len(wrong) + 1))
        yield {**facts, "answer": [", ".join(map(str, [*listed, *wrong]))]} if len(listed) == 1 else facts


def _opened(facts: Facts) -> list[Any]:
    listed = facts.get("opened")
    return list(listed) if isinstance(listed, list | tuple) else []


def _less_opened(_: Scenario, facts: Facts) -> Iterator[Facts]:
    listed = _opened(facts)
    yield from ({**facts, "opened": [*listed[:at], *listed[at + 1 :]]} for at in range(min(len(listed), 8)))


def _opened_order(_: Scenario, facts: Facts) -> Iterator[Facts]:
    listed = _opened(facts)
    yield from ({**facts, "opened": listed[::-1]}, {**facts, "opened": [*listed, *listed]})


def outcomes(scenario: Scenario, facts: Facts) -> Iterator[tuple[Scenario, Facts]]:
    """Yield answers of every kind, under both rules, with and without the gate and the evidence."""
    for question in _asked(scenario.question):
        asked = replace(scenario, question=question)
        yield from ((asked, found) for found in _given(asked, facts))


def _asked(question: Question) -> Iterator[Question]:
    """Yield the question, and others: without evidence, with one answer more, with many or none, of every kind."""
    yield question
    yield replace(question, supports=(), answers=question.answers[:1])
    yield replace(question, answers=(*question.answers, ("wrong", "wronger")))
    yield replace(question, answers=tuple((f"right {number}",) for number in range(8)))
    yield replace(question, answers=())
    yield from (replace(question, kind=kind) for kind in SINGLE)


def _given(scenario: Scenario, facts: Facts) -> Iterator[Facts]:
    answers = [list(spellings) for spellings in scenario.question.answers]
    usual = [spellings[0] for spellings in answers]
    supports = list(scenario.question.supports)
    wrong = [f"wrong {number}" for number in range(20)]
    given: list[JSON] = [usual, usual[:1], usual[1:], [*usual, "wrong"], ["wrong"], [], ["none"], ["none", "wrong"]]
    given += [[*usual, *wrong[:9]], [*usual, *wrong[: max(10 - len(usual), 0)]], [*usual, *wrong[: 11 - len(usual)]]]
    given += [[*usual, *wrong], [7, *usual], [spellings[-1] for spellings in answers], " ".join(usual)]
    for answer in given:
        for rule, gate in (("exact", False), ("f1", False), ("exact", True), ("f1", True), ("f1", "yes")):
            for opened in (supports, supports[:-1], [*supports, "another"], [], [[], 7, *supports]):
                asked = {**facts, "answer": answer, "rule": rule, "gate": gate, "opened": opened}
                yield {**asked, "seen": [True, False, 1][: len(answer)]}
    for odd in (None, 7, "abc", {"a": 1}, [None, True]):
        asked = {**facts, "answer": usual, "opened": supports}
        yield from ({**asked, "opened": odd}, {**asked, "seen": odd}, {**asked, "answer": odd}, {**asked, "turns": odd})
    yield from ({**facts, "answer": usual, "turns": turns} for turns in (0, 1, -1, True, 1.5))


def _meaning(action: JSON) -> JSON:
    """Return what an answer says: words are compared, and signs that are no letters or digits are not part of them."""
    if isinstance(action, dict) and isinstance(action.get("arguments"), dict):
        answers = action["arguments"].get("answers")
        if isinstance(answers, list):
            return sorted({key(text) for text in answers if isinstance(text, str)})
    return action


AUDIT: Final = Audit(
    luck=0.1,
    relations=(
        Relation(
            "same-words",
            "an answer in another order, case, twice, or with an article is worth the same",
            _same_words,
            "same",
        ),
        Relation("more-wrong", "with a wrong answer more, an answer earns no more", _more_wrong),
        Relation(
            "opened-order", "articles opened in another order, or twice, are worth the same", _opened_order, "same"
        ),
        Relation("less-opened", "with an article less opened, an answer earns no more", _less_opened),
    ),
    outcomes=outcomes,
    meaning=_meaning,
    equivalent={
        "agentenvs_scoring.searchworld:_Match.f1: self.given > max(MOST_PAID, 2 * self.wanted) or not self.right -> "
        "self.given > max(MOST_PAID, 2 * self.wanted)": (
            "with none right the mean is 0 as well, and its denominator is not 0 here"
        ),
    },
)
