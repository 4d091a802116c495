"""A BM25 index over whole numbers, and exact top-k search in it.

The score of a document d for a query q (Robertson and Walker 1994, in the variant of Lucene 8 and later):

    score(q, d) = sum over terms t of q, as often as they stand there, of impact(t, d)
    impact(t, d) = round(SCALE * idf(t) * tf / (tf + k1 * (1 - b + b * |d| / average length)))
    idf(t) = ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5))

Impacts are computed once, when the index is built (``building``), in integer arithmetic; a search only adds them up.
So scores, order and the index's bytes are the same on every platform. Documents of equal score stand in the order of
their numbers, which is the order in which they were handed in.

Postings of a term are its documents (i4) and impacts (u2); a term that a tenth of the documents hold has an impact for
every document instead, zero where it does not stand, because adding two arrays is faster than following numbers.

Search goes through the query's terms from the one that can add most to the one that can add least. As soon as those
that are left cannot, all together, lift a document that has nothing yet to the k-th best of what was found (MaxScore:
Turtle and Flood 1995), only documents that can still get there are looked up in the rest. What is returned is what
adding up everything would return; ``tests/core/search`` holds it against that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from agentenvs.core.search.bundle import Array, Bundle
from agentenvs.core.search.packing import Packed, native
from agentenvs.core.search.ranking import best, kth
from agentenvs.core.search.tokens import Tokenizer

KIND = "bm25"
SCALE = 4096

MOST_TERMS = 1024
"""Terms of a query beyond this many are not looked at."""

_MOST_REMEMBERED = 4096
_SPARSE = 8  # below one in so many documents touched, they are gathered by number
_FEW = 32  # above one in so many documents left, it is faster to add up the next term for all
_SHORT = 8  # a list of less than so many times the documents left is added up, a longer one searched


class Hit(NamedTuple):
    """A document that was found."""

    number: int
    """Its place among the documents that were handed in."""
    id: str
    score: int
    """``SCALE`` times its BM25 score, rounded term by term."""


class Index:
    """A BM25 index; built by :func:`~agentenvs.core.search.build`. Shared freely: nothing changes it.

    Args:
        bundle: Its arrays.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        arrays = bundle.arrays
        self.tokenizer = Tokenizer.from_json(bundle.meta["tokenizer"])
        self.count: int = bundle.meta["documents"]
        self._ids = Packed(arrays["ids"], arrays["id_starts"])
        self._terms = Packed(arrays["terms"], arrays["term_starts"])
        self._starts = native(arrays["starts"])
        self._rows = native(arrays["rows"])
        self._bounds = native(arrays["bounds"])
        self._docs, self._impacts = arrays["docs"], arrays["impacts"]
        self._full = arrays["full"].reshape(-1, self.count) if self.count else arrays["full"]
        self._known: dict[str, int] = {}
        self._spare: list[Array] = []

    # ---- files -----------------------------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """SHA-256 of all that decides what is found: documents' terms, tokenizer, parameters, ids."""
        return self._bundle.digest

    def save(self, path: Path) -> None:
        """Write the index to a file.

        Raises:
            OSError: It cannot be written.
        """
        self._bundle.save(path)

    @classmethod
    def open(cls, path: Path) -> Index:
        """Map an index; processes that open the same file share its memory.

        Raises:
            DataError: It is no index, or is damaged as far as can be told cheaply.
        """
        return cls(Bundle.open(path, KIND))

    def verify(self) -> None:
        """Read every byte of the file and compare digests.

        Raises:
            DataError: It is not what was written.
        """
        self._bundle.verify()

    def __deepcopy__(self, memo: dict[int, Any]) -> Index:
        return self

    def __copy__(self) -> Index:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        bundle = self._bundle
        if bundle.path is not None:
            return Index.open, (bundle.path,)
        return _rebuilt, (bundle.kind, bundle.meta, bundle.arrays)

    # ---- searching -------------------------------------------------------------------------------------------------

    def search(self, query: str, k: int = 10, offset: int = 0) -> list[Hit]:
        """Return the best documents for a query: those that hold a term of it, by score, then by number.

        Args:
            query: Any text; one without a known term finds nothing.
            k: How many at most.
            offset: How many of the best are left out.
        """
        return self.search_terms(self.tokenizer.terms(query), k, offset)

    def search_terms(self, terms: Sequence[str], k: int = 10, offset: int = 0) -> list[Hit]:
        """Like :meth:`search`, for terms as the tokenizer returns them."""
        most = min(k + offset, self.count)
        if k <= 0 or offset < 0 or most <= offset:
            return []
        numbers, scores = self._best(terms, most)
        found = zip(numbers.tolist()[offset:], scores.tolist()[offset:], strict=True)
        return [Hit(number, self._ids[number].decode(), score) for number, score in found]

    def id_of(self, number: int) -> str:
        """Return the id of a document."""
        return self._ids[number].decode()

    def documents_with(self, term: str) -> Array:
        """Return the numbers of the documents that hold a term, ascending (i4)."""
        number = self._number(term)
        if number < 0:
            return _NONE
        row = self._rows[number]
        if row >= 0:
            return np.flatnonzero(self._full[row]).astype(np.int32)
        return self._docs[self._starts[number] : self._starts[number + 1]]

    def scores(self, query: str) -> Array:
        """Return the score of every document: what :meth:`search` must agree with, and slow."""
        total = np.zeros(self.count, np.int64)
        for term in self.tokenizer.terms(query)[:MOST_TERMS]:
            number = self._number(term)
            if number >= 0:
                self._add(total, number, 1)
        return total

    def _number(self, term: str) -> int:
        found = self._known.get(term)
        if found is None:
            found = self._terms.find(term.encode("utf-8", "replace"))
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[term] = found
        return found

    def _plan(self, terms: Sequence[str]) -> list[tuple[int, int, int]]:
        """Return the known terms, each with the most it adds to a document and how often it counts; most first."""
        counted = Counter(terms[:MOST_TERMS])
        numbered = [(self._number(term), times) for term, times in counted.items()]
        return sorted((-self._bounds[number] * times, number, times) for number, times in numbered if number >= 0)

    def _best(self, terms: Sequence[str], most: int) -> tuple[Array, Array]:
        plan = self._plan(terms)
        if not plan:
            return _NONE, _NONE
        if len(plan) == 1:
            return self._best_of_one(plan[0][1], plan[0][2], most)
        total = self._scratch()
        touched: list[Array] | None = []
        try:
            rest = -sum(bound for bound, _, _ in plan)
            floor, reach = 0, 0
            for place, (bound, number, times) in enumerate(plan):
                touched, values = self._touch(total, touched, number, times)
                rest, reach = rest + bound, reach - bound
                if rest < reach and place + 1 < len(plan):
                    floor = max(floor, kth(values, most))
                    docs = _reaching(total, touched, floor - rest, self.count // _FEW) if rest < floor else None
                    if docs is not None:
                        return self._narrowed(total, touched, docs, plan[place + 1 :], most, floor, rest)
            return self._settled(total, touched, most)
        finally:
            _clear(total, touched)
            self._spare.append(total)

    def _scratch(self) -> Array:
        """Return zeros for every document; what an earlier search gave back where there is one (threads search too)."""
        try:
            return self._spare.pop()
        except IndexError:
            return np.zeros(self.count, np.int32)

    def _best_of_one(self, number: int, times: int, most: int) -> tuple[Array, Array]:
        row = self._rows[number]
        if row >= 0:
            found = best(self._full[row], most)
            return found, self._full[row][found].astype(np.int32) * times
        start, end = self._starts[number], self._starts[number + 1]
        impacts = self._impacts[start:end]
        found = best(impacts, most)
        return self._docs[start:end][found], impacts[found].astype(np.int32) * times

    def _touch(
        self, total: Array, touched: list[Array] | None, number: int, times: int
    ) -> tuple[list[Array] | None, Array]:
        """Add a term's impacts; return what was touched (None: everything) and totals of different documents."""
        row = self._rows[number]
        if row >= 0:
            np.add(total, _times(self._full[row], times), out=total)
            return None, total
        start, end = self._starts[number], self._starts[number + 1]
        docs = self._docs[start:end]
        values = total[docs]
        values += _times(self._impacts[start:end], times)
        total[docs] = values
        if touched is not None:
            touched.append(docs)
        return touched, values

    def _add(self, total: Array, number: int, times: int) -> None:
        self._touch(total, None, number, times)

    def _narrowed(
        self,
        total: Array,
        touched: list[Array] | None,
        docs: Array,
        plan: Sequence[tuple[int, int, int]],
        most: int,
        floor: int,
        rest: int,
    ) -> tuple[Array, Array]:
        """Look the documents that can still be among the best up in the terms that are left."""
        looked_up = np.zeros(docs.size, np.int32)
        for bound, number, times in plan:
            if self._rows[number] < 0 and self._starts[number + 1] - self._starts[number] < _SHORT * docs.size:
                self._touch(total, touched, number, times)
            else:
                looked_up += _times(self._looked_up(number, docs), times)
            values = total[docs] + looked_up
            rest += bound
            if docs.size > 4 * most:
                floor = max(floor, kth(values, most))
                kept = values >= floor - rest
                docs, looked_up, values = docs[kept], looked_up[kept], values[kept]
        found = best(values, most)
        return docs[found], values[found]

    def _looked_up(self, number: int, docs: Array) -> Array:
        """Return a term's impacts in some documents, 0 where it does not stand."""
        row = self._rows[number]
        if row >= 0:
            return self._full[row][docs]  # type: ignore[no-any-return]
        start, end = self._starts[number], self._starts[number + 1]
        listed = self._docs[start:end]
        places = np.minimum(np.searchsorted(listed, docs), listed.size - 1)
        return np.where(listed[places] == docs, self._impacts[start:end][places], 0)

    def _settled(self, total: Array, touched: list[Array] | None, most: int) -> tuple[Array, Array]:
        """Return the best of what was added up."""
        if touched is None or sum(docs.size for docs in touched) * _SPARSE > self.count:
            found = best(total, most)
        else:
            docs = np.unique(np.concatenate(touched))
            found = docs[best(total[docs], most)]
        return found, total[found]


_NONE = np.zeros(0, np.int32)


def _rebuilt(kind: str, meta: dict[str, Any], arrays: dict[str, Array]) -> Index:
    return Index(Bundle(kind, meta, arrays))


def _times(impacts: Array, times: int) -> Array:
    return impacts if times == 1 else impacts.astype(np.int32) * times


def _reaching(total: Array, touched: list[Array] | None, least: int, most: int) -> Array | None:
    """Return the documents that have at least so much, in order; None where they are more than so many."""
    if touched is None:
        reached = total >= least
        return np.flatnonzero(reached) if np.count_nonzero(reached) <= most else None
    found = [docs[total[docs] >= least] for docs in touched]
    return np.unique(np.concatenate(found)) if sum(docs.size for docs in found) <= most else None


def _clear(total: Array, touched: list[Array] | None) -> None:
    if touched is None or sum(docs.size for docs in touched) * _SPARSE > total.size:
        total.fill(0)
    else:
        for docs in touched:
            total[docs] = 0
