"""Building a BM25 index, in integers and in bounded memory.

Documents are read once. Their words become numbers in the order in which they turn up; every few million words the
(term, document) pairs are sorted and counted, which leaves postings of 8 bytes. When all are read, terms are put in
order of their bytes and each posting's impact goes to its place. So memory is a little more than twice the finished
index, whatever the texts.

The arithmetic: k1 and b are taken in thousandths. idf comes from ``portable.log`` and is rounded to a whole number of
2**-20; the length part k1 * (1 - b + b * |d| / average) is computed with Python's integers for each length and rounded
down to a whole number of 2**-16; an impact is idf * tf / (tf + length part), in 64-bit integers, rounded half up to a
whole number of 1/SCALE and at least 1.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from agentenvs.core import portable
from agentenvs.core.errors import ContractError
from agentenvs.core.prepared import Progress
from agentenvs.core.search.bundle import Array, Bundle
from agentenvs.core.search.index import KIND, SCALE, Index
from agentenvs.core.search.packing import pack
from agentenvs.core.search.tokens import Tokenizer

Text: TypeAlias = str | Sequence[str]
"""The text of a document, or its fields."""
Lengths: TypeAlias = Literal["exact", "lucene"]
MOST_DOCUMENTS = 1 << 22
"""So that an impact, at most ``SCALE`` times the idf of a term in one document, fits in 16 bits."""
MOST_FREQUENT = 65_535
"""A term that stands in a document more often counts as often as this."""

_IDF_BITS, _LENGTH_BITS, _SCALE_BITS = 20, 16, 12
_WORDS_A_RUN = 2_000_000
_DOCUMENTS_A_TELL = 4096
_FULL = 10  # a term in one document of so many, or more, has an impact for each


@dataclass(frozen=True, slots=True)
class _Run:
    """Postings of some documents, by term, then document."""

    terms: Array
    counts: Array
    docs: Array
    often: Array


def build(
    documents: Iterable[tuple[str, Text]],
    *,
    tokenizer: Tokenizer | None = None,
    k1: float = 1.2,
    b: float = 0.75,
    weights: Sequence[int] = (1,),
    lengths: Lengths = "exact",
    places: Sequence[int] | None = None,
    total: int | None = None,
    progress: Progress | None = None,
) -> Index:
    """Build an index in memory.

    Args:
        documents: ``(id, text)`` in the order in which equal scores are shown, or ``(id, fields)``.
        tokenizer: How texts and queries become terms; plain words where None.
        k1: Where the frequency of a term saturates; to a thousandth.
        b: How much a document's length matters, from 0 to 1; to a thousandth.
        weights: For each field, how often its words count.
        lengths: ``lucene`` rounds documents' lengths as Lucene does, for results near to its.
        places: Where they come in another order than equal scores are shown in: each one's place in that.
        total: How many documents there are, for the progress.
        progress: Is told how far it is.

    Raises:
        ContractError: k1, b, weights or places make no sense, or there are too many documents.
    """
    reader = _Reader(tokenizer or Tokenizer(), tuple(weights), progress or _silent, total)
    for name, text in documents:
        reader.add(name, text)
    if places is not None:
        reader.move(np.asarray(places, np.int64))
    return _Writer(reader, k1, b, lengths).index()


def build_from_words(
    ids: Sequence[str],
    words: Array,
    ends: Array,
    vocabulary: Sequence[str],
    *,
    tokenizer: Tokenizer | None = None,
    k1: float = 1.2,
    b: float = 0.75,
    lengths: Lengths = "exact",
    progress: Progress | None = None,
) -> Index:
    """Build the index that :func:`build` would, from words that were counted already.

    Args:
        ids: The documents' ids.
        words: The words of all documents, one after the other, as numbers of the vocabulary (i4).
        ends: Where each document ends in ``words`` (i8).
        vocabulary: The words as ``Tokenizer.words`` returns them.
        tokenizer: As for :func:`build`, like all that follow.
        k1: As there.
        b: As there.
        lengths: As there.
        progress: As there.

    Raises:
        ContractError: k1 or b make no sense, or ids and ends are not equally many.
    """
    reader = _Reader(tokenizer or Tokenizer(), (1,), progress or _silent, len(ids))
    if len(ids) != ends.size:
        raise ContractError(f"{len(ids)} ids, but {ends.size} documents")
    reader.take(ids, words, ends, vocabulary)
    return _Writer(reader, k1, b, lengths).index()


class _Numbers(dict[str, int]):
    """The number of a word's term, given out when it is first met; -1 for what is left out."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._term = tokenizer.term
        self.terms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        term = self._term(word)
        number = self.terms.setdefault(term, len(self.terms)) if term else -1
        self[word] = number
        return number


class _Reader:
    """Reads documents into runs of postings.

    Raises:
        ContractError: A weight is negative.
    """

    def __init__(self, tokenizer: Tokenizer, weights: tuple[int, ...], progress: Progress, total: int | None) -> None:
        if any(weight < 0 for weight in weights):
            raise ContractError(f"no field counts {min(weights)} times")
        self.tokenizer = tokenizer
        self.weights = weights
        self.progress = progress
        self.ids: list[bytes] = []
        self.runs: list[_Run] = []
        self.lengths: list[Array] = []
        self._numbers = _Numbers(tokenizer)
        self._words, self._ends = array("i"), array("q")
        self._first = 0
        self._total = total

    @property
    def terms(self) -> dict[str, int]:
        """The number of each term."""
        return self._numbers.terms

    def add(self, name: str, text: Text) -> None:
        """Read one document."""
        fields = (text,) if isinstance(text, str) else text
        if len(fields) != len(self.weights):  # a document of one field may come as a string
            raise ContractError(f"document {name!r:.80} has {len(fields)} fields, not {len(self.weights)}")
        for field, weight in zip(fields, self.weights, strict=True):
            self._words.extend(list(map(self._numbers.__getitem__, self.tokenizer.words(field))) * weight)
        self._ends.append(len(self._words))
        self.ids.append(name.encode())
        if len(self._words) >= _WORDS_A_RUN:
            self.flush()
        if len(self.ids) % _DOCUMENTS_A_TELL == 0:
            self.progress("indexing", len(self.ids), self._total)

    def take(self, ids: Sequence[str], words: Array, ends: Array, vocabulary: Sequence[str]) -> None:
        """Read many documents whose words are numbered."""
        terms = np.fromiter(map(self._numbers.__getitem__, vocabulary), np.int32, len(vocabulary))
        self.ids = [name.encode() for name in ids]
        first = start = 0
        while first < ends.size:
            last = max(int(np.searchsorted(ends, start + _WORDS_A_RUN)), first + 1)
            self._keep(terms[words[start : ends[last - 1]]], ends[first:last] - start, first)
            self.progress("indexing", last, self._total)
            first, start = last, int(ends[last - 1])
        self._first = len(self.ids)

    def flush(self) -> None:
        """Sort and count what was read since the last time."""
        if len(self.ids) > self._first:
            words = np.frombuffer(self._words, np.int32) if self._words else np.zeros(0, np.int32)
            self._keep(words, np.frombuffer(self._ends, np.int64), self._first)
        self._words, self._ends, self._first = array("i"), array("q"), len(self.ids)

    def move(self, places: Array) -> None:
        """Give every document another number: that at its place in ``places``."""
        self.flush()
        count = len(self.ids)
        back = np.full(count, -1, np.int64)
        if places.shape == (count,) and not (count and (places.min() < 0 or places.max() >= count)):
            back[places] = np.arange(count)
        if (back < 0).any():
            raise ContractError(f"places of {count} documents are no order of them")
        self.ids = [self.ids[one] for one in back.tolist()]
        self.lengths = [np.concatenate([np.zeros(0, np.int32), *self.lengths])[back]]
        if self.runs:
            self.runs = [_moved(self.runs, places)]

    def _keep(self, words: Array, ends: Array, first: int) -> None:
        """Keep the postings of the documents from ``first`` on, which end where ``ends`` says."""
        if len(self.ids) > MOST_DOCUMENTS:
            fix = "use SQLite's engine: FtsIndex.build(), or -o engine=fts5"
            raise ContractError(f"more than {MOST_DOCUMENTS} documents in one index", fix=fix)
        sizes = np.diff(np.concatenate((np.zeros(1, np.int64), ends)))
        docs = np.repeat(np.arange(sizes.size, dtype=np.int64), sizes)
        kept = words >= 0
        words, docs = words[kept], docs[kept]
        self.lengths.append(np.bincount(docs, minlength=sizes.size).astype(np.int32))
        if words.size:
            self.runs.append(_run(words, docs + first))


def _run(words: Array, docs: Array) -> _Run:
    pairs = np.sort((words.astype(np.int64) << 32) | docs)
    firsts = np.flatnonzero(np.diff(pairs, prepend=-1))
    often = np.minimum(np.diff(firsts, append=pairs.size), MOST_FREQUENT).astype(np.uint16)
    pairs = pairs[firsts]
    terms = (pairs >> 32).astype(np.int32)
    starts = np.flatnonzero(np.diff(terms, prepend=-1))
    counts = np.diff(starts, append=terms.size)
    return _Run(terms[starts], counts, (pairs & 0xFFFFFFFF).astype(np.int32), often)


def _moved(runs: list[_Run], places: Array) -> _Run:
    """Return all postings as one run, their documents numbered anew."""
    terms = np.concatenate([np.repeat(run.terms, run.counts) for run in runs])
    docs = places[np.concatenate([run.docs for run in runs])]
    order = np.argsort((terms.astype(np.int64) << 32) | docs)
    terms = terms[order]
    starts = np.flatnonzero(np.diff(terms, prepend=-1))
    often = np.concatenate([run.often for run in runs])[order]
    return _Run(terms[starts], np.diff(starts, append=terms.size), docs[order].astype(np.int32), often)


class _Writer:
    """Puts postings in order and computes their impacts."""

    def __init__(self, reader: _Reader, k1: float, b: float, lengths: Lengths) -> None:
        self._k1, self._b, self._kind = round(k1 * 1000), round(b * 1000), lengths
        if self._k1 < 0 or not 0 <= self._b <= 1000 or lengths not in ("exact", "lucene"):
            raise ContractError(f"no BM25 has k1 {k1}, b {b} and lengths {lengths!r}")
        reader.flush()
        self._reader = reader
        self._count = len(reader.ids)
        self._lengths = np.concatenate([np.zeros(0, np.int32), *reader.lengths])
        self._tokens = int(self._lengths.sum(dtype=np.int64))

    def index(self) -> Index:
        """Return the index."""
        reader = self._reader
        holders = np.zeros(len(reader.terms), np.int64)
        for run in reader.runs:
            holders[run.terms] += run.counts
        held = (holders > 0).tolist()
        terms = sorted((term for term, number in reader.terms.items() if held[number]), key=str.encode)
        numbers = np.fromiter(map(reader.terms.__getitem__, terms), np.int64, len(terms))
        places = np.empty(len(reader.terms), np.int64)
        places[numbers] = np.arange(len(terms))
        joined, term_starts = pack(term.encode() for term in terms)
        ids, id_starts = pack(reader.ids)
        named = {"terms": joined, "term_starts": term_starts, "ids": ids, "id_starts": id_starts}
        return Index(Bundle(KIND, self._meta(), {**named, **self._postings(places, holders[numbers])}))

    def _meta(self) -> dict[str, Any]:
        return {
            "b": self._b,
            "documents": self._count,
            "k1": self._k1,
            "lengths": self._kind,
            "scale": SCALE,
            "tokenizer": self._reader.tokenizer.to_json(),
            "tokens": self._tokens,
            "weights": list(self._reader.weights),
        }

    def _postings(self, places: Array, holders: Array) -> dict[str, Array]:
        runs = self._reader.runs
        idf, parts = _idf(self._count, holders), self._length_parts()
        is_full = holders * _FULL >= self._count
        rows = np.where(is_full, np.cumsum(is_full) - 1, -1).astype(np.int32)
        starts = np.zeros(holders.size + 1, np.int64)
        np.cumsum(np.where(is_full, 0, holders), out=starts[1:])
        docs, impacts = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.uint16)
        full = np.zeros((int(is_full.sum()), self._count), np.uint16)
        bounds, ends = np.zeros(holders.size, np.uint16), starts[:-1].copy()
        for done in range(len(runs)):
            run, runs[done] = runs[done], _GONE
            where = places[run.terms]
            made = _impacts(np.repeat(idf[where], run.counts), run.often.astype(np.int64), parts[run.docs])
            firsts = np.cumsum(run.counts) - run.counts
            bounds[where] = np.maximum(bounds[where], np.maximum.reduceat(made, firsts))
            in_full = np.repeat(is_full[where], run.counts)
            full[np.repeat(rows[where], run.counts)[in_full], run.docs[in_full]] = made[in_full]
            target = (np.repeat(ends[where] - firsts, run.counts) + np.arange(run.docs.size))[~in_full]
            docs[target], impacts[target] = run.docs[~in_full], made[~in_full]
            ends[where] += np.where(is_full[where], 0, run.counts)
            self._reader.progress("writing", done + 1, len(runs))
        placed = {"starts": starts, "docs": docs, "impacts": impacts, "bounds": bounds}
        return {**placed, "rows": rows, "full": full.reshape(-1)}

    def _length_parts(self) -> Array:
        """Return k1 * (1 - b + b * |d| / average length) of each document, in 2**-16."""
        known, inverse = np.unique(self._lengths, return_inverse=True)
        total = max(self._tokens, 1)
        parts = [self._length_part(int(length), total) for length in known.tolist()]
        return np.array(parts, np.int64)[inverse.reshape(-1)]

    def _length_part(self, length: int, total: int) -> int:
        if self._kind == "lucene":
            length = lucene_length(length)
        share = (1000 - self._b) * total + self._b * length * self._count
        return (self._k1 * share << _LENGTH_BITS) // (1_000_000 * total)


_GONE = _Run(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.uint16))


def lucene_length(length: int) -> int:
    """Return a length as Lucene keeps it in one byte (``SmallFloat.intToByte4``): exact below 40, then 4 bits of it."""
    more = length - 24
    if more < 8:
        return length
    shift = more.bit_length() - 4
    return 24 + (more >> shift << shift)


def _idf(count: int, holders: Array) -> Array:
    """Return ln(1 + (N - n + 0.5) / (n + 0.5)) in 2**-20, for each number n of documents that hold a term."""
    known, inverse = np.unique(holders, return_inverse=True)
    scale = float(1 << _IDF_BITS)
    found = [int(portable.log(1.0 + (count - n + 0.5) / (n + 0.5)) * scale + 0.5) for n in known.tolist()]
    return np.array(found, np.int64)[inverse.reshape(-1)]


def _impacts(idf: Array, often: Array, parts: Array) -> Array:
    """Return round(SCALE * idf * tf / (tf + part)), at least 1."""
    often = often << _LENGTH_BITS
    scaled = idf * often // (often + parts)
    shift = _IDF_BITS - _SCALE_BITS
    rounded: Array = (scaled + (1 << (shift - 1))) >> shift
    return np.maximum(rounded, 1).astype(np.uint16)


def _silent(what: str, done: int, total: int | None) -> None:
    return None
