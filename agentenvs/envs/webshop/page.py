"""The shop as a website: the page a shopper stands on, as data, told by the same rules as the words of its profile.

Each button is a click of the text grammar. A label with brackets, which the grammar cannot say, is shown and cannot be
pressed: use the tool ``click`` for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentenvs.core.webpage import Card, Entry, Group, Part, Press, WebPage, Words
from agentenvs.envs.webshop import view
from agentenvs.envs.webshop.native import stars
from agentenvs.envs.webshop.rules import ITEM, RESULTS, START, SUB, State
from agentenvs_scenarios.webshop.model import OptionGroup, Product, money

_NAMES = {START: "Search", RESULTS: "Results", ITEM: "Product", SUB: "Details"}


def webpage(state: State, notice: str = "") -> WebPage:
    """Return the page.

    Args:
        state: Where the shopper stands.
        notice: What went wrong in the last turn.
    """
    parts = {START: _start, RESULTS: _results, ITEM: _item, SUB: _sub}.get(state.page, _done)(state)
    return WebPage(f"Web shop: {_NAMES.get(state.page, 'Thank you')}", tuple(parts), notice)


def _press(label: str) -> Press:
    return Press(label, f"click[{label.lower()}]", disabled="[" in label or "]" in label)


def _start(state: State) -> Iterator[Part]:
    yield Entry("Search the shop", "Search", "search[", "]")


def _results(state: State) -> Iterator[Part]:
    total, listed = state.results
    yield _press("Back to Search")
    yield Words(f"Page {state.number} (Total results: {total})", 2)
    for index in listed:
        product = state.scenario.shop.product(index)
        seen = "seen" if index in state.visited and state.profile == "native" else ""
        told = (product.title, product.tag, *([f"Rating: {stars(product)}"] if state.profile == "native" else []))
        button = _press(product.id)
        yield Card(Press(button.label, button.action, note=seen, disabled=button.disabled), told)
    if state.number > 1:
        yield _press("< Prev")
    if state.has_next():
        yield _press("Next >")


def _item(state: State) -> Iterator[Part]:
    product, native = state.item, state.profile == "native"
    yield from (_press("Back to Search"), _press("< Prev"))
    yield Words(product.title, 2)
    yield Words(f"Price: {view.price_tag(state, product)}")
    yield Words(f"Rating: {stars(product) if native else 'N.A.'}")
    for group in product.options:
        yield Group(group.name, tuple(_values(state, group)))
    subs = ("Description", "Features", "Reviews", *(("Attributes",) if state.attributes_page else ()))
    yield Group("More about it", tuple(_press(label) for label in subs))
    yield _press("Buy Now")


def _values(state: State, group: OptionGroup) -> Iterator[Press]:
    native = state.profile == "native"
    shown = group.values if native else view.offered(state, group)
    for value in shown:
        at = group.values.index(value)
        price, pieces = group.prices[at], group.stock[at]
        notes = [
            *([money(price)] if native and price is not None else []),
            *(["sold out"] if native and pieces == 0 else []),
            *([f"{pieces} in stock"] if native and pieces else []),
        ]
        button = _press(value)
        yield Press(
            value,
            button.action,
            state.chosen.get(group.name) == value,
            ", ".join(notes),
            button.disabled or (native and pieces == 0),
        )


def _sub(state: State) -> Iterator[Part]:
    yield from (_press("Back to Search"), _press("< Prev"))
    yield Words(state.sub.title(), 2)
    yield from (Words(text) for text in _told(state, state.item) if text.strip())


def _told(state: State, product: Product) -> Iterator[str]:
    if state.sub == "reviews":
        if state.profile == "native":
            yield from (f"{review.score} of 5: {review.title}. {review.body}" for review in product.reviews)
        return
    yield from view.sub_texts(state)


def _done(state: State) -> Iterator[Part]:
    yield Words("Thank you for shopping with us!", 2)
