"""Corpora at hand: found in a data folder once a process, indexed once, and asked about like a universe.

The own engine indexes them, or SQLite's (``fts5``), which takes a fraction of the memory and many times the time of a
search, and whose order may differ between builds of SQLite; the library's digest says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from agentenvs.core.search import FtsIndex, build
from agentenvs.envs.searchworld.holdings import Holding, Recent
from agentenvs.envs.searchworld.library import TOKENIZER, Library
from agentenvs_scenarios.searchworld.corpus import Corpus
from agentenvs_scenarios.searchworld.load import find_corpora, load
from agentenvs_scenarios.searchworld.model import Question, Scenario

OWN: Final = "bm25"
SQLITE: Final = "fts5"
KEPT: Final = 4
"""Corpora whose index is kept in memory when nobody plays in them."""

_held: Recent[Holding] = Recent(KEPT)


def listed(folder: str) -> Mapping[str, Corpus]:
    """Return the corpora of a data folder by name.

    Raises:
        DataError: There is none, or one cannot be read.
    """
    return _listed(Path(folder).absolute())


@lru_cache(maxsize=4)
def _listed(folder: Path) -> Mapping[str, Corpus]:
    return {source.name: load(source) for source in find_corpora(folder)}


def holding(corpus: Corpus, engine: str = OWN) -> Holding:
    """Return the library of a corpus.

    Args:
        corpus: The corpus.
        engine: What searches it: :data:`OWN` or :data:`SQLITE`.

    Raises:
        ContractError: This Python's SQLite has no FTS5, or the own engine takes no corpus of that size.
    """
    return _held.get((corpus.panel, engine), lambda: _indexed(corpus, engine))


def scenario(corpus: Corpus, index: int, engine: str = OWN) -> Scenario:
    """Return the scenario of a question; see :func:`holding`."""
    asked, library = corpus.questions[index], holding(corpus, engine).library
    question = Question(
        sentence=asked.sentence,
        kind=asked.kind,
        hops=asked.hops,
        answers=asked.answers,
        supports=tuple(library.id_of(number) for number in asked.supports),
    )
    return Scenario(f"{corpus.name}-{index}", library.digest, question)


def _indexed(corpus: Corpus, engine: str) -> Holding:
    def documents() -> Iterator[tuple[str, str]]:
        for number, (title, text) in enumerate(corpus.articles):
            yield str(number), f"{title}\n{text}"

    make = FtsIndex.build if engine == SQLITE else build
    return Holding(Library(corpus, make(documents(), tokenizer=TOKENIZER)), comma=corpus.comma)
