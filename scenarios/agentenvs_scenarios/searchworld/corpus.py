"""A corpus: articles from files, and questions about them, in the same nouns as a universe's."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from agentenvs.core.canon import digest
from agentenvs.core.errors import DataError


class Asked(NamedTuple):
    """A question of a file."""

    sentence: str
    kind: str
    hops: int
    """0 where the file does not say."""
    answers: tuple[tuple[str, ...], ...]
    supports: tuple[int, ...]
    """Numbers of the articles it rests on, ascending; none where the file does not say."""


class Corpus:
    """Articles and questions.

    Args:
        name: What it is called.
        articles: Titles and texts.
        questions: The questions.
        comma: Whether commas part the answers of a text.
    """

    def __init__(
        self, name: str, articles: Iterable[tuple[str, str]], questions: Iterable[Asked], comma: bool = False
    ) -> None:
        self.name = name
        self.articles = tuple(articles)
        self.questions = tuple(questions)
        self.comma = comma

    def __len__(self) -> int:
        return len(self.articles)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the articles."""
        return digest([list(article) for article in self.articles])

    @cached_property
    def panel(self) -> str:
        """SHA-256 of articles and questions."""
        return digest([self.digest, [list(asked) for asked in self.questions]])

    def title(self, document: int) -> str:
        """Return the title of a document."""
        return self.articles[document][0]

    def text(self, document: int) -> str:
        """Return the text of a document."""
        return self.articles[document][1]

    def find(self, title: str) -> int | None:
        """Return the first document of a title, or None."""
        return self._numbers.get(title)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {title: number for number, (title, _) in reversed(list(enumerate(self.articles)))}


class Gathering:
    """Articles that are being gathered; what is the same twice is one."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._names: dict[str, int] = {}

    @property
    def articles(self) -> list[tuple[str, str]]:
        """The articles so far, in order."""
        return list(self._numbers)

    def add(self, title: str, text: str, name: str = "") -> int:
        """Return the number of an article, added where it is new.

        Args:
            title: Its title.
            text: Its text.
            name: The id it has in its file, if it has one.
        """
        number = self._numbers.setdefault((title, text), len(self._numbers))
        if name:
            self._names.setdefault(name, number)
        return number

    def named(self, name: str) -> int | None:
        """Return the number of the article that has an id, or None."""
        return self._names.get(name)


def required(found: bool, path: object, why: str) -> None:
    """Refuse a file.

    Raises:
        DataError: ``found`` is false.
    """
    if not found:
        raise DataError(f"{path} cannot be used", why=why, fix="see docs/searchworld.md for the formats that are read")
