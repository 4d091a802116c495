"""Goals without end: ``(shop, key, difficulty, split) -> Scenario``, pure.

A product of the split is drawn and some of what is so of it is asked for: its kind, a few attributes, values of its
options that are to be had, a price. The bound is the next whole dollar, so that the family's dearer sibling is a dollar
or two off. For the lowest price, the least that any product of the kind costs with those attributes and options. The
sentence says all that, never the title. Which products satisfy a goal is for others to prove.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agentenvs.core.canon import sha256
from agentenvs.core.errors import ContractError
from agentenvs.core.streams import Stream, derive
from agentenvs_scenarios.webshop.families import SIZE, Facts, kind_of
from agentenvs_scenarios.webshop.generated import GeneratedShop
from agentenvs_scenarios.webshop.ladder import MIXED, Rung, catalogue, rung_of
from agentenvs_scenarios.webshop.model import NO_BOUND, Goal, Product, Scenario, Want, money
from agentenvs_scenarios.webshop.vocabulary import Kind, vocabulary

SEALED: Final = "sealed"
SHARES: Final[dict[str, int]] = {name: row["sixteenths"] for name, row in catalogue()["splits"].items()}
SPLITS: Final = tuple(SHARES)

MOST_DRAFTS: Final = 2_000
"""Families looked at for one goal before something must be wrong."""


def split_of(shop: GeneratedShop, family: int) -> str:
    """Return the split a family belongs to."""
    point = derive(shop.key, f"split/{family}")[0] % 16
    for name, share in SHARES.items():
        if point < share:
            return name
        point -= share
    raise ContractError("the splits' shares do not add up to sixteen")


def generate(shop: GeneratedShop, key: bytes, difficulty: str = MIXED, split: str = "train") -> Scenario:
    """Return a scenario.

    Args:
        shop: Where it plays.
        key: The scenario's key, 256 bits.
        difficulty: ``mixed``, or a rung of the ladder.
        split: The split whose products it may ask for.

    Raises:
        KeyError: There is no such rung or split.
        ContractError: No product in :data:`MOST_DRAFTS` drafts can be asked for.
    """
    rung = rung_of(key, difficulty)
    stream = Stream(key, "goal")
    wants = tuple(_want(shop, stream, rung, split) for _ in range(rung.wants))
    if rung.wants > 1 and wants[0].query == wants[1].query:
        return generate(shop, derive(key, "another"), rung.name, split)
    budget = None
    if rung.wants > 1:
        budget = _whole(sum(_least(shop, want) for want in wants))
        wants = tuple(replace(want, bound=NO_BOUND) for want in wants)
    goal = Goal(_sentence(Stream(key, "sentence"), rung, wants, budget), wants, budget, rung.name)
    return Scenario(SEALED if split == SEALED else f"{rung.name}-{sha256(key)[:12]}", shop, goal)


def _want(shop: GeneratedShop, stream: Stream, rung: Rung, split: str) -> Want:
    for _ in range(MOST_DRAFTS):
        number = stream.below(shop.families)
        if split_of(shop, number) != split:
            continue
        index = stream.choice(shop.members(number))
        kind, facts = kind_of(number), shop.family(number)[index % SIZE]
        options = _options(stream, kind, facts)
        if options is None:
            continue
        count = stream.between(*rung.attributes)
        attributes = tuple(value.label for value in stream.sample(facts.attributes, count))
        want = Want(shop.id_of(index), shop.product(index).title, kind.name, kind.path, attributes, options, NO_BOUND)
        if not rung.cheapest:
            return replace(want, bound=_whole(_least(shop, want)))
        found = _cheapest(shop, want, split)
        if found is not None:
            return found
    raise ContractError(f"no product of {split} can be asked for", fix="take a larger shop")


def _options(stream: Stream, kind: Kind, facts: Facts) -> tuple[tuple[str, str], ...] | None:
    """Return what to choose, or None where a price depends on a choice that cannot be made."""
    found: list[tuple[str, str]] = []
    for choice, group, focus in zip(kind.choices, facts.options, facts.focus, strict=True):
        to_be_had = [value for value, pieces in zip(group.values, group.stock, strict=True) if pieces]
        if not to_be_had:
            return None
        if choice.step or stream.chance(4, 5):
            turns = focus in to_be_had and stream.chance(3, 4)
            found.append((group.name, focus if turns else stream.choice(to_be_had)))
    return tuple(found)


def _cheapest(shop: GeneratedShop, want: Want, split: str) -> Want | None:
    """Return a want for the lowest price; None where no product of the split has it."""
    prices = {
        product.id: price for product in shop.likely(want, 0, None) if (price := _price(product, want)) is not None
    }
    bound = min(prices.values())
    for name, price in prices.items():
        index = shop.index(name)
        if price == bound and split_of(shop, index // SIZE) == split:
            return replace(want, product=name, title=shop.product(index).title, bound=bound)
    return None


def _least(shop: GeneratedShop, want: Want) -> int:
    """Return what the product the want was made of costs as chosen."""
    price = _price(shop.product(shop.index(want.product)), want)
    if price is None:
        raise ContractError(f"{want.product} is not what was made of it")
    return price


def _price(product: Product, want: Want) -> int | None:
    """Return what a product costs chosen as wanted; None where it cannot be, or lacks an attribute."""
    if not set(want.attributes) <= set(product.attributes):
        return None
    groups = {group.name: group for group in product.options}
    for name, value in want.options:
        group = groups.get(name)
        if group is None or value not in group.values or not group.stock[group.values.index(value)]:
            return None
    return product.price(dict(want.options))[1]


def _whole(cents: int) -> int:
    """Return the next whole dollar, in cents."""
    return -(-cents // 100) * 100


# ---- words -----------------------------------------------------------------------------------------------------------


def _sentence(stream: Stream, rung: Rung, wants: Sequence[Want], budget: int | None) -> str:
    texts = vocabulary().texts["goals"]
    if budget is not None:
        first, second = (_called(stream, rung, want) + _asked(stream, rung, want) for want in wants)
        return _text(stream.choice(texts["basket"]), first=first, second=second, price=money(budget))
    want = wants[0]
    if rung.cheapest:
        return _text(stream.choice(texts["cheapest"]), kind=want.query) + _asked(stream, rung, want) + "."
    opening = _text(stream.choice(texts["open"]), kind=_called(stream, rung, want))
    closing = _text(stream.choice(texts["bound"]), price=money(want.bound))
    return opening + _asked(stream, rung, want) + closing


def _called(stream: Stream, rung: Rung, want: Want) -> str:
    if rung.paraphrase:
        return stream.choice(vocabulary().kind(want.query).also)
    article = "" if want.query.endswith("s") else "an " if want.query[0] in "aeiou" else "a "
    return article + want.query


def _asked(stream: Stream, rung: Rung, want: Want) -> str:
    texts = vocabulary().texts["goals"]
    values = [vocabulary().value(label) for label in want.attributes]
    clauses = " and ".join(value.ask if rung.paraphrase else value.say for value in values)
    said = _text(stream.choice(texts["clauses"]), clauses=clauses)
    if want.options:
        options = " and ".join(f"{name} {value}" for name, value in want.options)
        said += _text(stream.choice(texts["options"]), options=options)
    return said


def _text(template: str, **words: str) -> str:
    return template.format_map(words)
