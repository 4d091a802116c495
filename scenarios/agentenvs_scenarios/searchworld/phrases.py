"""Reads a question back into the program it was made from: what somebody does who understands the sentence.

Nothing but the sentence and the schema is looked at, so a player may use it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from agentenvs_scenarios.searchworld.programs import Program
from agentenvs_scenarios.searchworld.schema import FORWARD, TYPES, Direction, directions, schema

_ASKED: Final = re.compile(r"(?:Who|Which) (?:is|are) (the .*)\?")
_BOTH: Final = re.compile(r"(?:Who|Which) is among (the .*) and also among (the .*)\?")
_WHERE: Final = re.compile(r"Which of (the .*?) ((?:was|has|had|weighs|is of) .*)\?")
_COUNT: Final = re.compile(r"How many (.*) are there\?")
_CALLED: Final = "the person called "


def read(sentence: str) -> Program | None:
    """Return the program of a question, or None where it is none of ours."""
    for pattern, make in ((_BOTH, _both), (_COUNT, _count), (_WHERE, _where), (_ASKED, _step)):
        match = pattern.fullmatch(sentence)
        if match is not None and (made := make(*match.groups())) is not None:
            return made
    return _value(sentence) or _pick(sentence)


def phrase(text: str) -> Program:
    """Return the program of a noun phrase; what no relation begins is a name."""
    if text.startswith(_CALLED):
        return ("called", text.removeprefix(_CALLED))
    found = _relation(text.removeprefix("the ")) if text.startswith("the ") else None
    if found is None:
        return ("entity", text.removeprefix("the "))
    way, rest = found
    return ("step", way.relation.name, way.way, phrase(rest))


def _relation(text: str) -> tuple[Direction, str] | None:
    """Return the relation a text begins with, and what follows."""
    for said, way in _phrases():
        if text.startswith(f"{said} "):
            return way, text[len(said) + 1 :]
    return None


@lru_cache(maxsize=1)
def _phrases() -> tuple[tuple[str, Direction], ...]:
    """Return all ways by phrase, the longest first."""
    known = {way.phrase: way for name in TYPES for way in directions()[name]}
    return tuple(sorted(known.items(), key=lambda item: (-len(item[0]), item[0])))


def _step(text: str) -> Program | None:
    made = phrase(text)
    return made if made[0] == "step" else None


def _both(first: str, second: str) -> Program | None:
    return ("both", phrase(first), phrase(second))


def _count(text: str) -> Program | None:
    found = _relation(text)
    return None if found is None else ("count", found[0].relation.name, found[0].way, phrase(found[1]))


def _where(text: str, said: str) -> Program | None:
    tests = tuple(_test(part) for part in re.split(r" and (?=(?:was|has|had|weighs|is of) )", said))
    return ("where", tests, phrase(text)) if all(tests) else None


def _test(text: str) -> Program:
    for attribute, wording in schema().filters.items():
        pattern = re.escape(wording).replace(r"\{low\}", r"(\w+)").replace(r"\{high\}", r"(\w+)")
        match = re.fullmatch(pattern, text, re.ASCII)
        if match is not None and match[1].isdigit():
            return ("range", attribute, int(match[1]), int(match[2]))
        if match is not None:
            return ("letters", attribute, match[1], match[2])
    return ()


def _value(sentence: str) -> Program | None:
    for attribute in schema().attributes:
        head = f"What is the {attribute.phrase} "
        if sentence.startswith(head):
            return ("value", attribute.name, phrase(sentence.removeprefix(head).removesuffix("?")))
    return None


def _pick(sentence: str) -> Program | None:
    for attribute, wordings in schema().compare.items():
        for which, wording in enumerate(wordings):
            head = wording.partition("{a}")[0]
            if sentence.startswith(head):
                first, _, second = sentence.removeprefix(head).removesuffix("?").partition(" or ")
                return ("pick", attribute, which, phrase(first), phrase(second))
    return None


def others_words(relation: str, way: int) -> tuple[str, ...]:
    """Return the ways in which the other's article may state a relation, as words to search for beside a name.

    Args:
        relation: Name of the relation.
        way: Which way it is walked; the article meant is that of whoever is walked to.
    """
    item = schema().relation(relation)
    texts = item.theirs if way == FORWARD else item.mine
    plain = (text.replace("{me}", " ").replace("{it}", " ").lower() for text in texts)
    return tuple(" ".join(re.findall("[a-z]{3,}", text)) for text in plain)
