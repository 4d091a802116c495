"""What is so of a large generated shop's products, as columns of integers: which of a kind could be what is wanted.

A kind of a million-product shop has 25,000 products, and making the facts of each takes seconds. The columns hold what
decides a want (attributes, values to be had, price), written once while the search is made, so that only products that
may fit are made. They narrow and decide nothing: whoever proves a goal looks at each product left by the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agentenvs_scenarios.webshop.families import SIZE, Facts
from agentenvs_scenarios.webshop.generated import BITS, HALF, LETTERS
from agentenvs_scenarios.webshop.model import Want
from agentenvs_scenarios.webshop.vocabulary import Kind, vocabulary

_SLOTS: Final = 5
_CHOICES: Final = 2
_PRICES: Final = 5
"""The most a kind has of each: slots, choices, values of a choice that sets the price."""

_ROW: Final = np.dtype([("slots", "u1", (_SLOTS,)), ("stock", "<u2", (_CHOICES,)), ("prices", "<i4", (_PRICES,))])
"""Number of the value in each slot; bits of the values to be had of each choice; cents with each value that sets the
price, all the same where none does."""
_NO_PRICE: Final = 1 << 30


class Columns:
    """The columns of a shop.

    Args:
        rows: By kind, family of the kind, member.
    """

    def __init__(self, rows: NDArray[Any]) -> None:
        self._rows = rows

    @classmethod
    def empty(cls, families: int) -> Columns:
        """Return columns for a number of families, to be filled by :meth:`put`."""
        kinds = len(vocabulary().kinds)
        rows = np.zeros((kinds, -(-families // kinds), SIZE), _ROW)
        rows["prices"] = _NO_PRICE
        return cls(rows)

    @classmethod
    def open(cls, path: Path) -> Columns:
        """Map the columns that :meth:`save` wrote.

        Raises:
            OSError: The file cannot be read.
            ValueError: It holds no columns.
        """
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
        if rows.dtype != _ROW or rows.ndim != 3 or rows.shape[0] != len(vocabulary().kinds):
            raise ValueError(f"{path} holds no columns of a shop")
        return cls(rows)

    def save(self, path: Path) -> None:
        """Write the columns."""
        np.save(path, self._rows, allow_pickle=False)

    def put(self, number: int, family: Sequence[Facts]) -> None:
        """Note the facts of a family: of those of its members that the shop has."""
        kinds = vocabulary().kinds
        kind = kinds[number % len(kinds)]
        rows = [_row(kind, facts) for facts in family]
        self._rows[number % len(kinds), number // len(kinds), : len(rows)] = rows

    def likely(self, want: Want, lacking: int, bound: int | None) -> list[int]:
        """Return indices of products, in order: all of the wanted kind that lack at most so many things, and some more.

        Args:
            want: What is asked for; its attributes and options are the things.
            lacking: How many of them may be missing.
            bound: Cents; what costs more as chosen is left out. None leaves out all but the cheapest.
        """
        words = vocabulary()
        at = words.number(want.query)
        if at < 0:
            return []
        kind, rows = words.kinds[at], self._rows[at]
        missing = np.zeros(rows.shape, np.int8)
        for label in want.attributes:
            missing += _unlike(kind, rows, label)
        prices = least = rows["prices"].min(axis=-1)
        for name, value in want.options:
            choice, number = _place(kind, name, value)
            missing += rows["stock"][..., choice] >> number & 1 == 0
            if kind.choices[choice].step:
                prices = rows["prices"][..., number]
                prices = np.where(prices == _NO_PRICE, least, prices)
        keep = missing <= lacking
        most = prices[keep].min(initial=_NO_PRICE) if bound is None else bound
        families, members = np.nonzero(keep & (prices <= most))
        return [int(number) for number in (families * len(words.kinds) + at) * SIZE + members]


def _row(kind: Kind, facts: Facts) -> tuple[list[int], list[int], list[int]]:
    slots = [slot.index(value) for slot, value in zip(kind.slots, facts.attributes, strict=True)]
    stock, prices = [0] * _CHOICES, [facts.low] * _PRICES
    for at, (choice, group) in enumerate(zip(kind.choices, facts.options, strict=True)):
        if choice.step:
            prices = [_NO_PRICE] * _PRICES
        for value, cents, pieces in zip(group.values, group.prices, group.stock, strict=True):
            number = choice.values.index(value)
            stock[at] |= (1 << number) if pieces else 0
            if choice.step and cents is not None and pieces:
                prices[number] = cents
    return slots, stock, prices


def _unlike(kind: Kind, rows: NDArray[Any], label: str) -> NDArray[np.bool_]:
    for at, slot in enumerate(kind.slots):
        for number, value in enumerate(slot):
            if value.label == label:
                return np.asarray(rows["slots"][..., at] != number)
    return np.ones(rows.shape, np.bool_)


def _place(kind: Kind, name: str, value: str) -> tuple[int, int]:
    """Return the number of a choice and of a value in it."""
    at = next(at for at, choice in enumerate(kind.choices) if choice.name == name)
    return at, kind.choices[at].values.index(value)


def by_id(factor: int, shift: int, size: int) -> list[int]:
    """Return the indices of a shop's products in the order of their ids.

    Args:
        factor: Of the permutation that ids are spelt from, as ``GeneratedShop`` has it.
        shift: Likewise.
        size: How many products.
    """
    mask = np.uint64((1 << BITS) - 1)
    values = np.arange(size, dtype=np.uint64)
    for _ in range(2):  # what overflows 64 bits is above the mask
        values = (values * np.uint64(factor) + np.uint64(shift)) & mask
        values ^= values >> np.uint64(HALF)
    ranks = np.array([sorted(LETTERS).index(letter) for letter in LETTERS], np.int64)
    keys = np.zeros(size, np.int64)
    for at in range(0, BITS, 5):
        keys = (keys << 5) | ranks[((values >> np.uint64(at)) & np.uint64(31)).astype(np.int64)]
    found: list[int] = np.argsort(keys, kind="stable").tolist()
    return found
