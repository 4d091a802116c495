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
    listed: Any = facts.get("bought")
    return list(listed) if isinstance(listed, list | tuple) else []


def _other_order(_: Scenario, facts: Facts) -> Iterator[Facts]:
    yield {**facts, "bought": _bought(facts)[::-1]}


def _less(scenario: Scenario, facts: Facts) -> Iterator[Facts]:
    """Yield baskets with a purchase less; within a budget for all, leaving something out may rightly save the price."""
    listed = _bought(facts) if scenario.goal.budget is None else []
    yield from ({**facts, "bought": [*listed[:at], *listed[at + 1 :]]} for at in range(len(listed)))


def _more(scenario: Scenario, facts: Facts) -> Iterator[Facts]:
    """Yield baskets with more in them than was asked for; what was right is bought last."""
    listed = _bought(facts)
    wants = len(scenario.goal.wants)
    if len(listed) == wants:
        yield {
            **facts,
            "bought": [*listed, *({"product": want.product, "options": {}} for want in scenario.goal.wants)],
        }


def _unchosen(_: Scenario, facts: Facts) -> Iterator[Facts]:
    """Yield baskets with one choice taken back."""
    listed = _bought(facts)
    for at, item in enumerate(listed):
        options: Any = item.get("options") if isinstance(item, Mapping) else None
        for name in options if isinstance(options, Mapping) else ():
            kept = {other: value for other, value in options.items() if other != name}
            yield {**facts, "bought": [*listed[:at], {**item, "options": kept}, *listed[at + 1 :]]}


def outcomes(scenario: Scenario, facts: Facts) -> Iterator[tuple[Scenario, Facts]]:
    """Yield purchases of the wanted product, its kin and others, chosen well, badly and not at all, graded twice."""
    for asked in (scenario, *_asked(scenario)):
        for grading in ("exact", "formula"):
            graded = replace(asked, grading=grading)
            for basket in _baskets(graded):
                yield graded, {**facts, "bought": basket}

    product = scenario.goal.wants[0].product
    for spelled, value in _spellings(scenario):
        yield spelled, {**facts, "bought": [{"product": product, "options": {"value": value}}]}


def _asked(scenario: Scenario) -> Iterator[Scenario]:
    """Yield scenarios that ask for a little else: for values, for nothing but a kind, for less money."""
    goal = scenario.goal
    for change in (_unpaired, _plain, _cheap, _shouted, _named):
        yield replace(scenario, goal=replace(goal, wants=tuple(map(change, goal.wants))))
    spent = sum(scenario.shop.product(scenario.shop.index(want.product)).high for want in goal.wants)
    yield from (replace(scenario, goal=replace(goal, budget=budget)) for budget in (spent - 1, spent))

    for count in (4, 5, 6, 9, 10, 11):
        wants = tuple(_with_nouns(scenario, want, count) for want in goal.wants)
        for names in (0, 1, 2, 3):
            beside = tuple(
                replace(want, path=_shared(own.path, names)) for want, own in zip(wants, goal.wants, strict=True)
            )
            yield replace(scenario, goal=replace(goal, wants=beside))
    yield replace(scenario, goal=replace(goal, wants=tuple(_alike(scenario, want) for want in goal.wants)))


def _shared(path: str, names: int) -> str:
    """Return a path that shares so many names with another."""
    return " \u203a ".join(["none", *(name.strip() for name in path.split("\u203a")[:names])])


def _alike(scenario: Scenario, want: Want) -> Want:
    """Return a want whose attributes are ever less like those of the product, or run over the ends of its bullets."""
    product = scenario.shop.product(scenario.shop.index(want.product))
    near = [
        text[: len(text) - cut] + "q" * cut + "z" * more
        for text in product.attributes[:6]
        for cut in range(4)
        for more in range(7)
    ]
    ends = zip(product.bullets, product.bullets[1:], strict=False)
    return replace(want, attributes=(*near, *(f"{one[-6:]} {other[:6]}".lower() for one, other in ends)))


def _with_nouns(scenario: Scenario, want: Want, count: int) -> Want:
    """Return a want of another kind whose title has so many nouns, of which one is the product's."""
    shop, nouns = scenario.shop, scenario.nouns
    own = nouns.of(shop.product(shop.index(want.product)).title)
    titles = (shop.product(number * len(shop) // 40).title for number in range(40))
    strange = dict.fromkeys(noun for title in titles for noun in nouns.of(title) if noun not in own)
    title = " ".join([*own[:1], *islice(strange, count - 1)])
    return replace(want, title=title, query="none", path="none")


def _unpaired(want: Want) -> Want:
    return replace(want, pairs=not want.pairs, options=tuple(("", value) for _, value in want.options))


def _plain(want: Want) -> Want:
    return replace(want, attributes=(), options=(), title="of the and", path="a \u203a b")


def _cheap(want: Want) -> Want:
    return replace(want, bound=1, query="none", options=(*want.options, ("color", "dark grey"), ("size", "x-large")))


def _shouted(want: Want) -> Want:
    words = want.title.split()
    return replace(
        want, title=" ".join([*words, *(f"thing{number}" for number in range(12))]), query="none", path="none"
    )


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
    yield {f"not {name}": value for name, value in want.options}


_LONG: Final = "zwvyfjhx" * 26
_SOME: Final = "qvj fyw hzk wvx jzz vwk"


def _spelled() -> Iterator[tuple[str, list[str]]]:
    """Yield what is chosen with what was wanted, ever less alike: letters changed, words left out, more, or changed."""
    for size in (7, 13, 20, 40, 67, 96, 200):
        yield _LONG[:size], [_LONG[: size - cut] + "q" * cut for cut in range(1, size, 1 + size // 99)]
        yield _LONG[:size], [_LONG[: size - cut] for cut in range(1, size, 1 + size // 99)]
        yield f"a {_LONG[:size]}", [f"a {_LONG[: size - cut]}{'q' * cut}" for cut in range(1, size, 1 + size // 99)]
        yield (
            _LONG[:size],
            [f"{_LONG[: size - cut]} {_LONG[size - cut : size]}" for cut in range(1, size, 1 + size // 20)],
        )
    words = _SOME.split()
    for left in range(1, len(words) + 1):
        kept = " ".join(words[:left])
        yield _SOME, [f"{kept} {_LONG[:more]}" for more in range(1, 40, 2)]
        yield f"{kept} {_LONG[:9]}", [f"{kept} {_LONG[:more]}q" for more in range(1, 20)]
        yield f"{kept} hh", [f"{' '.join(words[at:])} hhh" for at in range(len(words))]
    odd = ["", "-", "…", "é", _SOME.upper(), _SOME.replace(" ", "_"), _SOME.replace(" ", " - "), f"{_SOME} {_SOME}"]
    yield _SOME, [*odd, *words, "".join(words), " ".join(reversed(words))]
    yield "", odd
    yield "ab", ["a\x7fb", "a\x80b", "ab\xfe", "ab\xff", "ab\u0100", "ab\u0101", "a b", "AB", "a_b"]
    yield "ab", ["ab c", "ab cd ef", "ba"]
    yield "ab cd", ["ab", "cd", "cd ab", "abcd"]
    yield "l xx", ["l", "xx", "xx l", "l x", "x"]
    yield _LONG[:200], [_LONG[: 200 - cut] + "q" * cut for cut in range(26, 34)]
    yield "x-large navy", ["large", "x-large", "large navy", "navy", "dark navy", "x large", "xlarge", "blue"]


def _spellings(scenario: Scenario) -> Iterator[tuple[Scenario, str]]:
    """Yield scenarios that want values of many spellings, graded by the formula, with what is chosen."""
    want = scenario.goal.wants[0]
    for chosen, wanted in _spelled():
        for pairs in (False, True):
            asked = replace(want, options=tuple(("", value) for value in wanted), pairs=pairs)
            goal = replace(scenario.goal, wants=(asked,), budget=None)
            yield replace(scenario, goal=goal, grading="formula"), chosen


def _meaning(action: JSON) -> JSON:
    """Return what a text says: what follows its last bracket is not read, as in the original's grammar."""
    return action[: action.rfind("]") + 1] if isinstance(action, str) and "]" in action else action


_FUZZY: Final = "agentenvs_scoring.fuzzy:token_set_ratio: "
_ASKED: Final = "only whether it exceeds 85 is asked"
_EMPTY: Final = "no words against some are 0 % the long way too"

EQUIVALENT: Final = {
    "agentenvs_scoring.webshop:best: True -> False": "a purchase or nothing stands beside each want: one length",
    "agentenvs_scoring.webshop:best: zip(order, wants, strict=True) -> zip(order, wants)": "as above: one length",
    "agentenvs_scoring.webshop_formula:_kind: 5 -> 6": "a sixth, as a fifth, exceeds a tenth and no fifth",
    f"{_FUZZY}0 -> 1": _ASKED,
    f"{_FUZZY}0 -> -1": _ASKED,
    f"{_FUZZY}100 -> 101": _ASKED,
    f"{_FUZZY}100 -> 99": _ASKED,
    f"{_FUZZY}not first or not second -> not first and (not second)": _EMPTY,
    f"{_FUZZY}not first or not second -> not second": _EMPTY,
    f"{_FUZZY}not first or not second -> not first": _EMPTY,
    f"{_FUZZY}if common -> if True": "with nothing in common what is added is 0 %, and the greatest counts",
    f"{_FUZZY}shared and (first == shared or second == shared) -> first == shared or second == shared": (
        "neither is empty here, so none equals an empty share"
    ),
}
"""Mutants that change no verdict, and why."""

AUDIT: Final = Audit(
    ordered=True,
    relations=(
        Relation("basket-order", "a basket in another order is worth the same", _other_order, "same"),
        Relation("fewer-purchases", "with a purchase less, a basket without a common budget earns no more", _less),
        Relation("more-purchases", "what is bought beyond what was asked for earns no more", _more),
        Relation("choices-taken-back", "with a choice less, a purchase that had all earns no more", _unchosen),
    ),
    outcomes=outcomes,
    meaning=_meaning,
    equivalent=EQUIVALENT,
)
