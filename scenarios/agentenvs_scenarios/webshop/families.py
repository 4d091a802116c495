"""Families of the generated shop: products that differ in one thing each, so that every goal has near misses.

A family is eight products of one kind. One is the base; each of the others departs from it in its own way: another
attribute in a slot, a value of an option that is not made or sold out, a dollar or two more, or less and another
attribute. One is as good as the base under another name. Which index plays which part is drawn. Facts only: what a
product is called and how it is praised is for :mod:`agentenvs_scenarios.webshop.wording`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agentenvs.core.streams import Stream, derive
from agentenvs_scenarios.webshop.model import OptionGroup
from agentenvs_scenarios.webshop.vocabulary import Choice, Kind, Value, vocabulary

SIZE: Final = 8
BASE, FIRST_SLOT, SECOND_SLOT, NOT_MADE, SOLD_OUT, DEARER, CHEAPER, EQUAL = range(SIZE)
"""The parts."""

PRICE_POINTS: Final = 5
"""Prices that families of a kind start from: few, so that a bound fits many families and singles out none."""
_CENTS: Final = 99
_MOST_PIECES: Final = 30


@dataclass(frozen=True, slots=True)
class Facts:
    """One product without its words."""

    part: int
    attributes: tuple[Value, ...]
    """One a slot, in the kind's order."""
    options: tuple[OptionGroup, ...]
    low: int
    high: int
    """Cents, of what is to be had."""
    focus: tuple[str, ...]
    """The value of each option that the family turns about."""


def kind_of(family: int) -> Kind:
    """Return a family's kind: kinds take turns, so that all of a kind are found without a look at the others."""
    kinds = vocabulary().kinds
    return kinds[family % len(kinds)]


def family_of(seed: bytes, number: int) -> tuple[Facts, ...]:
    """Return the products of a family, in order of their indices.

    Args:
        seed: The shop's key.
        number: Number of the family.
    """
    stream = Stream(derive(seed, f"family/{number}"), "facts")
    kind = kind_of(number)
    base = tuple(stream.choice(slot) for slot in kind.slots)
    swapped = stream.sample(range(len(kind.slots)), 3)
    focus = tuple(stream.choice(choice.values[1:-1]) for choice in kind.choices)
    price = _price(stream, kind)
    parts = list(range(SIZE))
    stream.shuffle(parts)
    return tuple(_member(stream, kind, part, base, swapped, focus, price) for part in parts)


def _member(
    stream: Stream,
    kind: Kind,
    part: int,
    base: tuple[Value, ...],
    swapped: Sequence[int],
    focus: tuple[str, ...],
    price: int,
) -> Facts:
    attributes = list(base)
    change = {FIRST_SLOT: 0, SECOND_SLOT: 1, CHEAPER: 2}.get(part)
    if change is not None:
        slot = swapped[change]
        others = [value for value in kind.slots[slot] if value != base[slot]]
        attributes[slot] = stream.choice(others)
    cost = price + _difference(stream, part)
    groups = tuple(
        _group(stream, choice, value, part if at == 0 else BASE, cost)
        for at, (choice, value) in enumerate(zip(kind.choices, focus, strict=True))
    )
    prices = [
        cents
        for group in groups
        for cents, pieces in zip(group.prices, group.stock, strict=True)
        if cents is not None and pieces
    ]
    return Facts(part, tuple(attributes), groups, min(prices, default=cost), max(prices, default=cost), focus)


def _price(stream: Stream, kind: Kind) -> int:
    least, most = kind.least // 100, kind.most // 100
    dollars = least + (most - least) * stream.below(PRICE_POINTS) // (PRICE_POINTS - 1)
    return dollars * 100 + _CENTS


def _difference(stream: Stream, part: int) -> int:
    """Return what a part costs more than the base, in cents: never more but for the one that is dearer."""
    if part == BASE:
        return 0
    if part == DEARER:
        return stream.between(101, 300)
    return -stream.between(40, 90) if part == CHEAPER else -stream.below(40)


def _group(stream: Stream, choice: Choice, focus: str, part: int, cost: int) -> OptionGroup:
    """Return the values made of one choice: the one in focus, unless the part says otherwise, and some others."""
    count = stream.between(choice.few, choice.many)
    others = [value for value in choice.values if value != focus]
    made = set(stream.sample(others, count - 1))
    if part != NOT_MADE:
        made.add(focus)
    values = [value for value in choice.values if value in made]
    middle = choice.values.index(focus)
    prices: list[int | None] = [
        cost + cost * choice.step * (choice.values.index(value) - middle) // (100 + choice.step * middle)
        if choice.step
        else None
        for value in values
    ]
    stock: list[int | None] = [_pieces(stream) for _ in values]
    if focus in made:
        stock[values.index(focus)] = 0 if part == SOLD_OUT else stream.between(1, _MOST_PIECES)
    return OptionGroup(choice.name, tuple(values), tuple(prices), tuple(stock))


def _pieces(stream: Stream) -> int:
    return 0 if stream.chance(1, 10) else stream.between(1, _MOST_PIECES)
