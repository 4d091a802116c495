"""Words of a text, by rules that are the same on every Python.

A text is brought to NFC, folded (``str.casefold``) and cut into runs of letters, digits and marks. Which characters
these are, and how they compose, is read from Unicode 3.2, the version every Python carries beside its own: the current
tables differ between Pythons. Characters younger than that are letters without another case, which nothing composes
with or moves past.

What a word is can be changed by a list of stop words, which are left out, and by a stemmer, both part of the
tokenizer's description and so of an index's digest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias
from unicodedata import ucd_3_2_0 as ucd

from agentenvs.core.canon import JSON
from agentenvs.core.errors import ContractError
from agentenvs.core.search.porter import stem

Stemmer: TypeAlias = Literal["", "porter"]
Rules: TypeAlias = Literal["words", "english"]

RULES_VERSION = 1

ENGLISH_STOP_WORDS = (
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
)  # fmt: skip
"""The English list of Lucene's analyzers."""

# Nothing outside these ranges is changed by NFC, but spaces, which are no letters.
_MAY_COMPOSE = re.compile("[\u0300-\u1fff\u2100-\U0010ffff]")
_INNER = "'\u2019.,:;_"
_JOINER = "\u034f"  # the combining grapheme joiner: marks do not move past it; taken out of every text
# Folded texts have no white space but blanks; no class of `re` is used, since those too differ between Pythons.
_ENGLISH = re.compile(
    r"[^ '\u2019.,:;]+(?:(?:(?<=[^ 0-9'\u2019.,:;_])['\u2019.:](?=[^ 0-9'\u2019.,:;_])"
    r"|(?<=[0-9])['\u2019.,;](?=[0-9]))[^ '\u2019.,:;]+)*"
)
_POSSESSIVE = ("'s", "\u2019s")


class _Folding(dict[int, str]):
    """What becomes of a character, found out when it is first met; for ``str.translate``."""

    def __init__(self, kept: str) -> None:
        super().__init__()
        self._kept = kept

    def __missing__(self, code: int) -> str:
        char = chr(code)
        folded = char if char in self._kept else _fold(char)
        if code < 0x10000:  # a text of every rare character must not fill the memory
            self[code] = folded
        return folded


class _Guards(dict[int, str]):
    """Joiners around what is younger than Unicode 3.2: how marks move past it depends on the Python."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        guarded = f"{_JOINER}{char}{_JOINER}" if ucd.category(char) == "Cn" else char
        if code < 0x10000:
            self[code] = guarded
        return guarded


def _fold(char: str) -> str:
    category = ucd.category(char)
    if category == "Cn":
        return char
    return char.casefold() if category[0] in "LMN" else " "


_WORDS, _WORDS_AND_INNER, _GUARDED = _Folding(""), _Folding(_INNER), _Guards()


@dataclass(frozen=True)
class Tokenizer:
    """How a text becomes terms.

    Args:
        stop: Words that are left out, folded, before stemming.
        stemmer: ``porter`` (Porter 1980) or none.
        rules: ``words``: runs of letters, digits and marks. ``english``: also words with an apostrophe or a period
            within, numbers with a point or comma within, and without a possessive 's, as Lucene's ``EnglishAnalyzer``.
    """

    stop: tuple[str, ...] = ()
    stemmer: Stemmer = ""
    rules: Rules = "words"

    def __post_init__(self) -> None:
        """Refuse what is unknown.

        Raises:
            ContractError: No such stemmer, or no such rules.
        """
        if self.stemmer not in ("", "porter") or self.rules not in ("words", "english"):
            raise ContractError(f"no such tokenizer: stemmer {self.stemmer!r}, rules {self.rules!r}")

    def words(self, text: str) -> list[str]:
        """Return the folded words of a text, stop words included, not stemmed."""
        if _MAY_COMPOSE.search(text):
            text = ucd.normalize("NFC", text.translate(_GUARDED)).replace(_JOINER, "")
        if self.rules == "words":
            return text.translate(_WORDS).split()
        return _ENGLISH.findall(text.translate(_WORDS_AND_INNER))

    def term(self, word: str) -> str:
        """Return the term of a word; empty where it is left out."""
        if self.rules == "english" and word.endswith(_POSSESSIVE):
            word = word[:-2]
        if word in self._stop:
            return ""
        return stem(word) if self.stemmer == "porter" else word

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text, in order."""
        return [term for word in self.words(text) if (term := self.term(word))]

    @cached_property
    def _stop(self) -> frozenset[str]:
        return frozenset(self.stop)

    def to_json(self) -> dict[str, JSON]:
        """Return the description, which is part of an index's digest."""
        form = {"version": RULES_VERSION, "rules": self.rules, "stemmer": self.stemmer}
        return {**form, "stop": sorted(self._stop)}

    @classmethod
    def from_json(cls, form: dict[str, JSON]) -> Tokenizer:
        """Read back what :meth:`to_json` wrote.

        Raises:
            ContractError: It is of another version.
        """
        if form["version"] != RULES_VERSION:
            raise ContractError(f"the tokenizer's rules are version {form['version']}, not {RULES_VERSION}")
        return cls(tuple(form["stop"]), form["stemmer"], form["rules"])


ENGLISH = Tokenizer(ENGLISH_STOP_WORDS, "porter", "english")
"""Close to Lucene's ``EnglishAnalyzer``: its stop words, Porter's stemmer, no possessive 's."""
