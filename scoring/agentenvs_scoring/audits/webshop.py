"""The web shop's audit: a basket is a set, a purchase less earns no more, and fuzzy comparisons see close relatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from agentenvs.core.canon import JSON
from agentenvs_scenarios.webshop.model import Product, Scenario, Want
from agentenvs_scoring.audits import Audit, Facts, Relation


def _bought(facts: Facts) -> list[Any]:
    listed = facts.get("bought")
    return list(listed) if isinstance(listed, list | tuple) else []


def _other_order(_: Scenario, facts: Facts) -> Iterator[Facts]:
    yield {**facts, "bought": _bought(facts)[::-1]}


def _less(_: Scenario, facts: Facts) -> Iterator[Facts]:
    listed = _bought(facts)
    yield from ({**facts, "bought": [*listed[:at], *listed[at + 1 :]]} for at in range(len(listed)))


def _more(scenario: Scenario, facts: Facts) -> Iterator[Facts]:
    """Yield baskets with more in them than was asked for; what was right is bought last."""
    listed = _bought(facts)
    wants = len(scenario.goal.wants)
    if len(listed) == wants:
        yield {**facts, "bought": [*listed, *({"product": want.product, "options": {}} for want in scenario.goal.wants)]}


def _unchosen(_: Scenario, facts: Facts) -> Iterator[Facts]:
    """Yield baskets with one choice taken back."""
    listed = _bought(facts)
    for at, item in enumerate(listed):
        options = item.get("options") if isinstance(item, Mapping) else None
        for name in options if isinstance(options, Mapping) else ():
            kept = {other: value for other, value in options.items() if other != name}
            yield {**facts, "bought": [*listed[:at], {**item, "options": kept}, *listed[at + 1 :]]}


def outcomes(scenario: Scenario, facts: Facts) -> Iterator[tuple[Scenario, Facts]]:
    """Yield purchases of the wanted product, its kin and others, chosen well, badly and not at all, graded both ways."""
    for asked in (scenario, *_asked(scenario)):
        for grading in ("exact", "formula"):
            graded = replace(asked, grading=grading)
            for basket in _baskets(graded):
                yield graded, {**facts, "bought": basket}


def _asked(scenario: Scenario) -> Iterator[Scenario]:
    """Yield scenarios that ask for a little else: of the other kind of pairs, for nothing but a kind, for less money."""
    goal = scenario.goal
    for change in (_unpaired, _plain, _cheap, _shouted, _named):
        yield replace(scenario, goal=replace(goal, wants=tuple(map(change, goal.wants))))
    spent = sum(scenario.shop.product(scenario.shop.index(want.product)).high for want in goal.wants)
    yield from (replace(scenario, goal=replace(goal, budget=budget)) for budget in (spent - 1, spent))


def _unpaired(want: Want) -> Want:
    return replace(want, pairs=not want.pairs, options=tuple(("", value) for _, value in want.options))


def _plain(want: Want) -> Want:
    return replace(want, attributes=(), options=(), title="of the and", path="a › b")


def _cheap(want: Want) -> Want:
    return replace(want, bound=1, query="none", options=(*want.options, ("color", "dark grey"), ("size", "x-large")))


def _shouted(want: Want) -> Want:
    words = want.title.split()
    return replace(want, title=" ".join([*words, *(f"thing{number}" for number in range(12))]), query="none", path="none")


def _named(want: Want) -> Want:
    """Return a want whose attributes are words that stand in titles and descriptions, whole or nearly."""
    words = want.title.lower().split()
    near = [word[:-1] + "x" for word in words[:2]]
    return replace(want, attributes=(*words[:2], " ".join(words[:2]), *near, "easy clean wipe", "wireless speaker"))


def _baskets(scenario: Scenario) -> Iterator[list[JSON]]:
    shop, wants = scenario.shop, scenario.goal.wants
    first = wants[0]
    products = [shop.product(shop.index(want.product)) for want in wants]
    kin = list(islice(shop.kin(first.query, first.path), 4))
    others = [shop.product(number * len(shop) // 4) for number in range(3)]
    for product in [*products, *kin, *others]:
        for options in _choices(product, first):
            rest = [{"product": other.id, "options": {}} for other in products[1:]]
            yield [{"product": product.id, "options": options}, *rest]
    yield from ([], [{"product": "nothing", "options": {}}], [{"product": products[0].id}], ["x"], [None])


def _choices(product: Product, want: Want) -> Iterator[dict[str, str]]:
    """Yield choices: nothing, all first or last values, what is wanted, and what only looks like it."""
    yield from ({}, {group.name: group.values[0] for group in product.options})
    yield {group.name: group.values[-1] for group in product.options}
    yield {name or f"option {at}": value for at, (name, value) in enumerate(want.options)}
    yield {name or f"option {at}": f"{value} more" for at, (name, value) in enumerate(want.options)}
    yield {name or f"option {at}": value[: len(value) * 9 // 10] for at, (name, value) in enumerate(want.options)}
    yield {"color": "light gray", "size": "large", "style": "rectangular"}


def _meaning(action: JSON) -> JSON:
    """Return what a text says: what follows its last bracket is not read, as in the original's grammar."""
    return action[: action.rfind("]") + 1] if isinstance(action, str) and "]" in action else action


AUDIT: Final = Audit(
    ordered=True,
    relations=(
        Relation("basket-order", "a basket in another order is worth the same", _other_order, "same"),
        Relation("fewer-purchases", "with a purchase less, a basket earns no more", _less),
        Relation("more-purchases", "what is bought beyond what was asked for earns no more", _more),
        Relation("choices-taken-back", "with a choice less, a purchase that had all earns no more", _unchosen),
    ),
    outcomes=outcomes,
    meaning=_meaning,
)
