"""The full-text engine of SQLite (FTS5) behind the methods of :class:`~agentenvs.core.search.index.Index`.

A fallback where numpy's memory is too much, for documents by the thousand (the option ``engine`` of the search worlds
takes it for a corpus): every match is scored by a query in SQL, so time grows with the number of
documents that hold any of its words. Its BM25 is computed by SQLite in floating point with k1 1.2 and b 0.75 and no
``ln(1 + …)``: other scores than the own engine's, another order, and another digest. Scores are rounded to whole
numbers before they are compared, so that the last bit of a platform's logarithm decides nothing but, rarely, a tie.

Terms are made by the same tokenizer and handed to SQLite as words of a to p (hexadecimal), so its own tokenizer and
its query language see nothing else.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from agentenvs.core.canon import canonical_bytes, digest
from agentenvs.core.errors import ContractError, DataError
from agentenvs.core.search.bundle import Array
from agentenvs.core.search.index import MOST_TERMS, SCALE, Hit
from agentenvs.core.search.tokens import Tokenizer

ENGINE = "fts5"

_LETTERS = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")
_TABLES = """
CREATE TABLE about (meta TEXT NOT NULL);
CREATE TABLE names (number INTEGER PRIMARY KEY, id TEXT NOT NULL);
CREATE VIRTUAL TABLE texts USING fts5(words, content='', tokenize='ascii');
"""
_HOLDING = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rowid"
_FIND = f"""
SELECT texts.rowid, names.id, CAST(round(bm25(texts) * -{SCALE}) AS INTEGER) AS score
FROM texts JOIN names ON names.number = texts.rowid
WHERE texts MATCH ? ORDER BY score DESC, texts.rowid LIMIT ? OFFSET ?
"""  # noqa: S608 - nothing in it comes from outside


class FtsIndex:
    """An index of SQLite's; built by :meth:`build`. Threads may share it.

    Args:
        connection: The database.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._meta = json.loads(connection.execute("SELECT meta FROM about").fetchone()[0])
        self.tokenizer = Tokenizer.from_json(self._meta["tokenizer"])
        self.count: int = self._meta["documents"]

    @property
    def digest(self) -> str:
        """SHA-256 of the engine's name, the tokenizer and the documents' ids and terms."""
        return digest(self._meta)

    @classmethod
    def build(
        cls, documents: Iterable[tuple[str, str]], *, tokenizer: Tokenizer | None = None, path: Path | None = None
    ) -> FtsIndex:
        """Build an index, in memory where no path is given.

        Raises:
            ContractError: This Python's SQLite has no FTS5.
        """
        chosen, total, number = tokenizer or Tokenizer(), hashlib.sha256(), -1
        connection = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
        try:
            connection.executescript(_TABLES)
        except sqlite3.OperationalError as error:
            raise ContractError(
                "this SQLite has no full-text search", why=str(error), fix="use the own engine: build()"
            ) from error
        with connection:
            for number, (name, text) in enumerate(documents):
                terms = chosen.terms(text)
                total.update(canonical_bytes([name, terms]))
                connection.execute("INSERT INTO names VALUES (?, ?)", (number, name))
                connection.execute("INSERT INTO texts (rowid, words) VALUES (?, ?)", (number, _spelled(terms)))
            meta = {"engine": ENGINE, "documents": number + 1, "tokenizer": chosen.to_json(), "sum": total.hexdigest()}
            connection.execute("INSERT INTO about VALUES (?)", (canonical_bytes(meta).decode(),))
        return cls(connection)

    @classmethod
    def open(cls, path: Path) -> FtsIndex:
        """Open an index that was built in a file, read-only.

        Raises:
            DataError: It is none.
        """
        try:
            return cls(
                sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
            )
        except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is no full-text index of SQLite's", why=str(error)) from error

    def search(self, query: str, k: int = 10, offset: int = 0) -> list[Hit]:
        """Return the best documents for a query, by score, then by number; see :meth:`Index.search`."""
        return self.search_terms(self.tokenizer.terms(query), k, offset)

    def search_terms(self, terms: list[str], k: int = 10, offset: int = 0) -> list[Hit]:
        """Like :meth:`search`, for terms as the tokenizer returns them."""
        if not terms or k <= 0 or offset < 0:
            return []
        wanted = " OR ".join(_spelled(terms[:MOST_TERMS]).split())
        with self._lock:
            return [Hit(*row) for row in self._connection.execute(_FIND, (wanted, k, offset))]

    def documents_with(self, term: str) -> Array:
        """Return the numbers of the documents that hold a term, ascending (i4); see :meth:`Index.documents_with`."""
        with self._lock:
            found = self._connection.execute(_HOLDING, (_spelled([term]),)).fetchall() if term else []
        return np.array([number for (number,) in found], np.int32)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> FtsIndex:
        return self


def _spelled(terms: Iterable[str]) -> str:
    return b" ".join(term.encode("utf-8", "replace").hex().encode().translate(_LETTERS) for term in terms).decode()
