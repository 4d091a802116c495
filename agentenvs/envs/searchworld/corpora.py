"""Corpora at hand: found in a data folder once a process, indexed once, and asked about like a universe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from agentenvs.core.search import build
from agentenvs.envs.searchworld.holdings import Holding, Recent
from agentenvs.envs.searchworld.library import TOKENIZER, Library
from agentenvs_scenarios.searchworld.corpus import Corpus
from agentenvs_scenarios.searchworld.load import find_corpora, load
from agentenvs_scenarios.searchworld.model import Question, Scenario

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


def holding(corpus: Corpus) -> Holding:
    """Return the library of a corpus."""
    return _held.get(corpus.panel, lambda: _indexed(corpus))


def scenario(corpus: Corpus, index: int) -> Scenario:
    """Return the scenario of a question."""
    asked, library = corpus.questions[index], holding(corpus).library
    question = Question(
        sentence=asked.sentence,
        kind=asked.kind,
        hops=asked.hops,
        answers=asked.answers,
        supports=tuple(library.id_of(number) for number in asked.supports),
    )
    return Scenario(f"{corpus.name}-{index}", library.digest, question)


def _indexed(corpus: Corpus) -> Holding:
    def documents() -> Iterator[tuple[str, str]]:
        for number, (title, text) in enumerate(corpus.articles):
            yield str(number), f"{title}\n{text}"

    return Holding(Library(corpus, build(documents(), tokenizer=TOKENIZER)), comma=corpus.comma)
