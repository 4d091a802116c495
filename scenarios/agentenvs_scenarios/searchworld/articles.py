"""Writes the articles of a universe, all at once: sentences are rows, words are pieces, and texts are gathered in bulk.

A statement is a row ``(article, what it states, the other entity or value)``; its wording is drawn, and the rows of
an article stand in a drawn order. A *piece* is a string that is used often: a part of a sentence, a name, a value. Each
row becomes five pieces, and the text of all articles is one gather of their bytes, done in slices so that memory stays
small. Articles shorter than the schema's length are filled with sentences that say nothing.

What an index counts, the words of each article by number, is gathered the same way, so that no text is cut up again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from agentenvs.core.search import Tokenizer
from agentenvs_scenarios.searchworld.draws import Draws, Ints
from agentenvs_scenarios.searchworld.schema import IT, ME, Sentence, schema, sentence
from agentenvs_scenarios.searchworld.universe import Blob, Links

T = TypeVar("T", bound=np.generic)

_SLICE: Final = 4_096
"""Articles whose bytes are gathered at a time."""


class Facts(NamedTuple):
    """All that is so in a universe, by number; see :class:`agentenvs_scenarios.searchworld.universe.Universe`."""

    first: Mapping[str, int]
    size: Mapping[str, int]
    links: tuple[Links, ...]
    values: tuple[npt.NDArray[np.int32], ...]
    words: tuple[tuple[str, ...], ...]


class Words(NamedTuple):
    """The words of all documents, titles first, as numbers: what an index is built from."""

    numbers: npt.NDArray[np.int32]
    ends: Ints
    """Where each document ends."""
    vocabulary: list[str]


class Articles(NamedTuple):
    """What was written."""

    texts: Blob
    """Text of each document, without its title."""
    words: Words


class _Rows(NamedTuple):
    """Statements: whose article, which group of wordings, and the piece of the other name or value."""

    article: Ints
    group: Ints
    other: Ints


class _Wordings:
    """Every wording as pieces, in groups: one for each side of each relation, one for each attribute, the fillers."""

    def __init__(self, pieces: Pieces) -> None:
        made = schema()
        groups: list[tuple[str, ...]] = [side for item in made.relations for side in (item.mine, item.theirs)]
        groups += [item.mine for item in made.attributes]
        groups.append(made.fillers)
        self.sizes = np.array([max(len(group), 1) for group in groups], dtype=np.int64)
        self.starts = np.array([0, *accumulate(self.sizes.tolist())][:-1], dtype=np.int64)
        rows = [sentence(text) for group in groups for text in group or ("",)]
        self.head = np.array([pieces.add(row.head) for row in rows], dtype=np.int64)
        self.middle = np.array([pieces.add(row.middle) for row in rows], dtype=np.int64)
        self.tail = np.array([pieces.add(row.tail + " ") for row in rows], dtype=np.int64)
        self.first = np.array([_SLOTS[row.first] for row in rows], dtype=np.int64)
        self.second = np.array([_SLOTS[row.second] for row in rows], dtype=np.int64)
        self.length = np.array([_letters(row) for row in rows], dtype=np.int64)
        self.fillers = len(groups) - 1


_SLOTS: Final = {"": 0, ME: 1, IT: 2}


def _letters(row: Sentence) -> int:
    return len(row.head) + len(row.middle) + len(row.tail) + 1


class Pieces:
    """Strings by number."""

    def __init__(self) -> None:
        self.texts: list[str] = [""]

    def add(self, text: str) -> int:
        """Return the number of a string."""
        self.texts.append(text)
        return len(self.texts) - 1

    def extend(self, texts: Sequence[str]) -> int:
        """Add strings and return the number of the first."""
        self.texts += texts
        return len(self.texts) - len(texts)


def write(key: bytes, names: Sequence[str], facts: Facts, entity_of: npt.NDArray[np.int32]) -> Articles:
    """Return the articles of a universe.

    Args:
        key: The universe's key.
        names: Name of each entity.
        facts: What is so.
        entity_of: Entity of each document.
    """
    pieces = Pieces()
    wordings = _Wordings(pieces)
    first_name = pieces.extend(names)
    rows = _statements(facts, pieces, first_name)
    draws = Draws(key, "articles")
    chosen = wordings.starts[rows.group] + draws.below(len(rows.group), wordings.sizes[rows.group])
    sizes = np.fromiter(map(len, pieces.texts), dtype=np.int64, count=len(pieces.texts))
    length = _lengths(rows, chosen, wordings, sizes, first_name)
    filling = _fill(draws, length, len(names), wordings, rows.article)
    article = np.concatenate((rows.article, filling.article))
    wording = np.concatenate((chosen, wordings.starts[wordings.fillers] + filling.other))
    other = np.concatenate((rows.other, np.zeros(len(filling.other), dtype=np.int64)))
    document_of = np.empty(len(names), dtype=np.int64)
    document_of[entity_of] = np.arange(len(names))
    order = np.argsort(document_of[article] << 32 | draws.words(len(article)), kind="stable")
    article, wording, other = article[order], wording[order], other[order]
    table = _table(wordings, wording, first_name + article, other)
    document = document_of[article]
    texts = _gather(pieces, sizes, table, document, len(names))
    return Articles(texts, _words(pieces, table, document, first_name + entity_of.astype(np.int64)))


def _statements(facts: Facts, pieces: Pieces, first_name: int) -> _Rows:
    parts: list[_Rows] = []
    for item, links in zip(schema().relations, facts.links, strict=True):
        base = facts.first[item.subject]
        having = np.flatnonzero(links.objects >= 0)
        objects = links.objects[having].astype(np.int64)
        subjects = having + base
        mine = links.mine[having]
        if item.symmetric:  # both partners have the fact; the one whose article has it says so
            parts.append(_rows(subjects[mine], 2 * item.number, first_name + objects[mine]))
            continue
        parts.append(_rows(subjects[mine], 2 * item.number, first_name + objects[mine]))
        parts.append(_rows(objects[~mine], 2 * item.number + 1, first_name + subjects[~mine]))
    offset = 2 * len(schema().relations)
    numbers = pieces.extend([str(number) for number in range(schema().last_year + 1)])
    for attribute, values, words in zip(schema().attributes, facts.values, facts.words, strict=True):
        start = numbers if attribute.kind == "number" else pieces.extend(words)
        having = np.flatnonzero(values >= 0)
        group = offset + attribute.number
        parts.append(_rows(having + facts.first[attribute.type], group, start + values[having].astype(np.int64)))
    return _Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _rows(article: Ints, group: int, other: Ints) -> _Rows:
    return _Rows(article.astype(np.int64), np.full(len(article), group, dtype=np.int64), other)


def _lengths(rows: _Rows, chosen: Ints, wordings: _Wordings, sizes: Ints, first_name: int) -> Ints:
    """Return the length of each row's sentence."""
    me = sizes[first_name + rows.article]
    names = (wordings.first[chosen] == 1) | (wordings.second[chosen] == 1)
    return wordings.length[chosen] + sizes[rows.other] + np.where(names, me, 0)


def _fill(draws: Draws, length: Ints, count: int, wordings: _Wordings, article: Ints) -> _Rows:
    """Return as many different fillers for each article as it takes to reach the length."""
    start, size = int(wordings.starts[wordings.fillers]), int(wordings.sizes[wordings.fillers])
    have = np.zeros(count, dtype=np.int64)
    np.add.at(have, article, length)
    usual = int(wordings.length[start : start + size].sum()) // size
    missing = np.clip((schema().length - have + usual - 1) // usual, 0, size)
    owner = np.repeat(np.arange(count), missing)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(missing) - missing, missing)
    # Steps of 7 through the list never meet: 7 and its size have no common factor.
    return _Rows(owner, owner, (draws.below(count, size)[owner] + 7 * place) % size)


def _table(wordings: _Wordings, wording: Ints, me: Ints, other: Ints) -> Ints:
    """Return the five pieces of each row."""
    table = np.empty((len(wording), 5), dtype=np.int64)
    table[:, 0] = wordings.head[wording]
    table[:, 2] = wordings.middle[wording]
    table[:, 4] = wordings.tail[wording]
    for column, slots in ((1, wordings.first[wording]), (3, wordings.second[wording])):
        table[:, column] = np.where(slots == 1, me, np.where(slots == 2, other, 0))
    return table


def _gather(pieces: Pieces, sizes: Ints, table: Ints, document: Ints, count: int) -> Blob:
    """Return the bytes of all rows, document by document; the blank at the end of each document goes."""
    source = np.frombuffer("".join(pieces.texts).encode("ascii"), dtype=np.uint8)
    offsets = np.cumsum(sizes) - sizes
    rows = np.searchsorted(document, np.arange(0, count + _SLICE, _SLICE))
    lengths = sizes[table].sum(axis=1)
    ends = np.cumsum(np.bincount(document, weights=None, minlength=count))  # rows before each document's end
    total = np.concatenate(([0], np.cumsum(lengths)))[ends] - np.arange(1, count + 1)
    out = np.empty(int(total[-1]) if count else 0, dtype=np.uint8)
    for low, high in zip(rows[:-1].tolist(), rows[1:].tolist(), strict=True):
        flat = table[low:high].ravel()
        if not len(flat):
            continue
        data = _taken(source, offsets, sizes, flat)
        last = np.flatnonzero(np.diff(document[low:high], append=-1))  # last row of each document: its blank goes
        data = np.delete(data, np.cumsum(lengths[low:high])[last] - 1)
        start = int(total[document.item(low) - 1]) if document.item(low) else 0
        out[start : start + len(data)] = data
    return Blob(out, total)


def _words(pieces: Pieces, table: Ints, document: Ints, titles: Ints) -> Words:
    """Return the words of all documents.

    Args:
        pieces: The strings.
        table: Five pieces a row.
        document: Document of each row, ascending.
        titles: Piece of each document's title.
    """
    cut = Tokenizer().words
    known: dict[str, int] = {}
    listed = [[known.setdefault(word, len(known)) for word in cut(text)] for text in pieces.texts]
    sizes = np.fromiter(map(len, listed), dtype=np.int64, count=len(listed))
    source = np.fromiter(chain.from_iterable(listed), dtype=np.int32, count=int(sizes.sum()))
    offsets = np.cumsum(sizes) - sizes
    # The title is one more row before the others of its document.
    flat = np.insert(table, np.searchsorted(document, np.arange(len(titles))), 0, axis=0)
    starts = np.searchsorted(document, np.arange(len(titles))) + np.arange(len(titles))
    flat[starts, 0] = titles
    lengths = sizes[flat].sum(axis=1)
    ends = np.cumsum(lengths)[np.append(starts[1:], len(flat)) - 1]
    parts = [_taken(source, offsets, sizes, part.ravel()) for part in np.array_split(flat, max(len(flat) // 65_536, 1))]
    numbers, listed_words = np.concatenate(parts), list(known)
    used = np.flatnonzero(np.bincount(numbers, minlength=len(known)))
    renumbered = np.zeros(len(known), dtype=np.int32)
    renumbered[used] = np.arange(len(used), dtype=np.int32)
    return Words(renumbered[numbers], ends, [listed_words[number] for number in used.tolist()])


def _taken(source: npt.NDArray[T], offsets: Ints, sizes: Ints, flat: Ints) -> npt.NDArray[T]:
    """Return what stands at some pieces, one after another."""
    size = sizes[flat]
    before = np.cumsum(size) - size
    return source[np.repeat(offsets[flat] - before, size) + np.arange(int(size.sum()))]
