"""What an answer is: how texts are compared, and how several answers in one text are told apart.

Two texts are the same answer where they have the same words: NFKC, folded, punctuation and the articles *a*, *an* and
*the* left out, as in SQuAD's evaluation (Rajpurkar et al. 2016), by tables that are the same on every Python. Where a
word ends is not looked at, so that U.S. and US are one. Nothing counts for being contained in something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from unicodedata import ucd_3_2_0 as ucd

NONE: Final = ("none", "unanswerable")
"""What may be said, alone, where nothing answers the question; an empty list says the same."""

MOST_GIVEN: Final = 200
"""An answer with more is none."""

_ARTICLES: Final = frozenset(("a", "an", "the"))
_BREAKS: Final = re.compile(r"[;\n]")


def normalise(text: str) -> str:
    """Return the words of an answer, folded, without articles; where nothing else is in it, these, or its signs."""
    plain = ucd.normalize("NFKC", text)
    words = _words()(plain)
    return " ".join([word for word in words if word not in _ARTICLES] or words) or plain.strip()


def key(text: str) -> str:
    """Return what two texts have in common that are the same answer."""
    return normalise(text).replace(" ", "")


def normalised(texts: object) -> tuple[str, ...]:
    """Return different answers in the order given; ``none`` alone is no answer, what is no text is left out."""
    listed = texts if isinstance(texts, list | tuple) else ()
    found: dict[str, str] = {}
    for text in listed:
        if isinstance(text, str) and (same := key(text)):
            found.setdefault(same, normalise(text))
    given = tuple(found.values())
    return () if len(given) == 1 and given[0] in NONE else given


def split(text: str, comma: bool = False) -> list[str]:
    """Return the answers that one text gives: a JSON list of strings, or parts between semicolons or lines.

    Args:
        text: What was said.
        comma: Whether commas part answers, too.
    """
    said = text.strip()
    if said.startswith("["):
        try:
            form = json.loads(said)
        except (ValueError, RecursionError):
            form = None
        if isinstance(form, list) and all(isinstance(item, str) for item in form):
            return form
    parts = _BREAKS.split(said.replace(",", ";") if comma else said)
    return [part.strip() for part in parts if part.strip()]


def holds(text: str, answer: str) -> bool:
    """Return whether the words of an answer stand in a text, one after another."""
    wanted = normalise(answer)
    return bool(wanted) and f" {wanted} " in f" {normalise(text)} "


@lru_cache(maxsize=1)
def _words() -> Callable[[str], list[str]]:
    from agentenvs.core.search import Tokenizer  # brings numpy, which whoever only lists environments goes without

    return Tokenizer().words
