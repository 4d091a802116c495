"""A library: articles of a universe or a corpus behind one search engine, read by number, id or title.

It is what a universe and a loaded corpus have in common, what all episodes about it share, and what a server offers to
others' retrieval clients. Nothing of any question is in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from agentenvs.core.canon import sha256
from agentenvs.core.library import Document
from agentenvs.core.search import ENGLISH_STOP_WORDS, FtsIndex, Index, Tokenizer
from agentenvs.core.search.index import SCALE
from agentenvs.envs.searchworld.actions import clean_query
from agentenvs_scenarios.searchworld.ids import Ids

STOP_WORDS: Final = (*ENGLISH_STOP_WORDS, "who", "whom", "which", "what", "how", "many", "also", "among", "between")
"""Words no article is found by."""
TOKENIZER: Final = Tokenizer(stop=STOP_WORDS)
MOST_RETRIEVED: Final = 20
"""Documents a search from outside an episode returns at most."""

_SNIPPET: Final = 90


class Shelf(Protocol):
    """Articles by number."""

    @property
    def digest(self) -> str:
        """SHA-256 of all of them."""

    def __len__(self) -> int:
        """Return how many there are."""

    def title(self, document: int) -> str:
        """Return the title of a document."""

    def text(self, document: int) -> str:
        """Return the text of a document, without its title."""

    def find(self, title: str) -> int | None:
        """Return the document of a title, or None."""


class Found(NamedTuple):
    """A document that was found."""

    number: int
    score: int


class Library:
    """Articles behind a search engine.

    Args:
        shelf: The articles.
        index: Their index; document ``n`` of the shelf is its document ``n``.
    """

    def __init__(self, shelf: Shelf, index: Index | FtsIndex) -> None:
        self.shelf = shelf
        self.index = index
        self.digest = sha256(f"{shelf.digest} {index.digest}".encode())
        self._ids = Ids(bytes.fromhex(self.digest), len(shelf))

    def __len__(self) -> int:
        return len(self.shelf)

    def __deepcopy__(self, memo: dict[int, object]) -> Library:
        return self

    def look_for(self, query: str, k: int) -> list[Found]:
        """Return the best documents for a query, best first, those of equal score by number.

        Args:
            query: A clean query.
            k: How many at most.
        """
        return [Found(hit.number, hit.score) for hit in self.index.search(query, k)]

    def find(self, title: str) -> int | None:
        """Return the document of a title, or None."""
        return self.shelf.find(title)

    def id_of(self, number: int) -> str:
        """Return the id of a document."""
        return self._ids.spell(number)

    def number_of(self, name: str) -> int | None:
        """Return the document of an id or an exact title, or None."""
        found = self._ids.number(name)
        return self.shelf.find(name) if found is None else found

    def title(self, number: int) -> str:
        """Return the title of a document."""
        return self.shelf.title(number)

    def text(self, number: int) -> str:
        """Return the text of a document, without its title."""
        return self.shelf.text(number)

    def snippet(self, number: int) -> str:
        """Return how a document begins, cut after a word."""
        text = " ".join(self.shelf.text(number)[: 2 * _SNIPPET].split())
        return text if len(text) <= _SNIPPET else f"{text[:_SNIPPET].rpartition(' ')[0]} …"

    def mentions(self, name: str) -> Iterable[int]:
        """Return the documents that hold every word of a name, ascending."""
        found: set[int] | None = None
        for word in TOKENIZER.terms(name):
            documents = self.index.documents_with(word).tolist()
            found = set(documents) if found is None else found.intersection(documents)
        return sorted(found or ())

    # ---- for those who come without an episode ---------------------------------------------------------------------

    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        """Return ids and scores of the best documents; see :class:`agentenvs.core.library.Library`."""
        found = self.look_for(clean_query(query), min(k, MOST_RETRIEVED))
        return [(self.id_of(item.number), item.score / SCALE) for item in found]

    def document(self, name: str) -> Document | None:
        """Return the document of an id or a title; None where there is none."""
        number = self.number_of(name)
        return None if number is None else Document(self.id_of(number), self.title(number), self.text(number))
