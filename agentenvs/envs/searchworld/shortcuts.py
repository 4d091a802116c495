"""What a player can do with one search, or with two, and without following anything: scripts that must fail.

They search for the question as it stands (its beginning or its end, where it is longer than a query), and then for the
title that came up, and answer with what the first article that is not named in the question is called, or with its
value where a value is asked for. The gates refuse a graded question that they, or anybody who only picks from the
titles they saw, would get right; the players of the same name play them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from agentenvs.core.errors import ContractError
from agentenvs.envs.searchworld.actions import MAX_QUERY, clean_query
from agentenvs.envs.searchworld.library import Library
from agentenvs_scenarios.searchworld.answers import holds
from agentenvs_scenarios.searchworld.reader import parse
from agentenvs_scenarios.searchworld.schema import schema

RESULTS: Final = 3
USUAL_COUNT: Final = "2"
"""What is said to every question of how many."""


def queries(sentence: str) -> tuple[str, ...]:
    """Return the searches for a question as it stands: its beginning and, where that is not all of it, its end."""
    return (sentence,) if len(sentence) <= MAX_QUERY else (sentence, sentence[-MAX_QUERY:])


def one_query(library: Library, query: str) -> list[int]:
    """Return the documents that a search finds."""
    return [item.number for item in library.look_for(clean_query(query), RESULTS)]


def second_query(titles: Iterable[str], sentence: str) -> str:
    """Return what the second search is for: the first title that the question does not name."""
    return next((title for title in titles if not holds(sentence, title)), "")


def guess(sentence: str, articles: Sequence[tuple[str, str]]) -> list[str]:
    """Return the answer of a player that has seen some articles and follows nothing.

    Args:
        sentence: The question.
        articles: Titles and texts, best first.
    """
    if sentence.startswith("How many"):
        return [USUAL_COUNT]
    new = [article for article in articles if not holds(sentence, article[0])]
    asked = next((item for item in schema().attributes if f"What is the {item.phrase} " in sentence), None)
    if asked is None:
        return [title for title, _ in new[:1]]
    for title, text in (*new, *articles):
        for name, _, value in _statements(title, text):
            if name == asked.name:
                return [value]
    return []


def leaked(titles: Iterable[str], answers: Iterable[str]) -> bool:
    """Return whether every answer is among the titles that came up."""
    seen = set(titles)
    wanted = list(answers)
    return bool(wanted) and all(answer in seen for answer in wanted)


def _statements(title: str, text: str) -> Sequence[tuple[str, bool, str]]:
    try:
        return parse(title, text)
    except ContractError:  # an article of a corpus, in nobody's wording
        return ()
