"""A collection of documents that can be searched without an episode: what retrieval servers of other trainers serve.

An environment that has some says so by :meth:`~agentenvs.core.environment.Environment.libraries`; a server then answers
searches in them beside its episodes, and nothing of a task or its answer is in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a library."""

    id: str
    title: str
    text: str


class Library(Protocol):
    """Documents that can be searched. Called from several threads, and must not raise for any text."""

    def search(self, query: str, k: int) -> Sequence[tuple[str, float]]:
        """Return the ids and scores of the best documents, best first."""

    def document(self, name: str) -> Document | None:
        """Return the document of an id, a title or an address; None where there is none."""
