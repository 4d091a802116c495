"""The words of the profile ``native``: what a shopper needs to see, in plain lines.

Chosen options are marked, each option's price and whether it is to be had stand beside it, pages say how many there are
and end, products have ratings and reviews, and no page says what a purchase was worth.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentenvs.envs.webshop.rules import ITEM, PAGE_SIZE, RESULTS, START, SUB, State
from agentenvs_scenarios.webshop.model import OptionGroup, Product, money

REFUSALS = {
    "no_search_bar": "There is no search bar on this page: go back to the search first.",
    "no_such_label": "There is nothing of that name to click on this page.",
    "sold_out": "That is sold out.",
    "unknown_command": "Say search[words] or click[label].",
    "unknown_tool": "There is no such tool.",
    "bad_arguments": "The tool takes other arguments.",
}


def page(state: State) -> str:
    """Return the page in words."""
    lines = [f"Task: {state.scenario.goal.sentence}"]
    asked = len(state.scenario.goal.wants)
    if asked > 1:
        lines.append(f"Bought: {len(state.bought)} of {asked}{_spent(state)}")
    if state.page == START:
        lines += ["Page: search", "Say search[words] to look for products."]
    elif state.page == RESULTS:
        lines += _results(state)
    elif state.page == ITEM:
        lines += _item(state)
    elif state.page == SUB:
        lines += _sub(state)
    else:
        lines += ["Page: order", "The order is placed."]
    return "\n".join(lines)


def _spent(state: State) -> str:
    product = state.scenario.shop.product
    spent = sum(product(index).price(dict(chosen))[1] for index, chosen in state.bought)
    return f", {money(spent)} spent" if spent else ""


def _results(state: State) -> Iterator[str]:
    total, listed = state.results
    pages = max(1, (total + PAGE_SIZE - 1) // PAGE_SIZE)
    yield f"Page: results for {state.query!r}, page {state.number} of {pages}, {total} products"
    for index in listed:
        product = state.scenario.shop.product(index)
        seen = " (seen)" if index in state.visited else ""
        yield f"[{product.id}]{seen} {product.title} | {_prices(product.low, product.high)} | {stars(product)}"
    yield _buttons(
        [*(["Next >"] if state.has_next() else []), *(["< Prev"] if state.number > 1 else []), "Back to Search"]
    )


def _item(state: State) -> Iterator[str]:
    product = state.item
    yield f"Page: product {product.id}"
    yield product.title
    low, high = product.price(state.chosen)
    yield f"Price{' as chosen' if state.chosen else ''}: {_prices(low, high)}"
    yield f"Rating: {stars(product)}"
    for group in product.options:
        yield f"{group.name}: {_values(group, state.chosen.get(group.name))}"
    buttons = ["Description", "Features", "Reviews", *(["Attributes"] if state.attributes_page else [])]
    yield _buttons([*buttons, "Buy Now", "< Prev", "Back to Search"])


def _values(group: OptionGroup, chosen: str | None) -> str:
    return ", ".join(
        f"[{value}]{_notes(price, pieces, value == chosen)}"
        for value, price, pieces in zip(group.values, group.prices, group.stock, strict=True)
    )


def _notes(price: int | None, pieces: int | None, chosen: bool) -> str:
    notes = [
        *([money(price)] if price is not None else []),
        *(["sold out"] if pieces == 0 else [f"{pieces} in stock"] if pieces is not None else []),
        *(["chosen"] if chosen else []),
    ]
    return f" ({', '.join(notes)})" if notes else ""


def _sub(state: State) -> Iterator[str]:
    product = state.item
    yield f"Page: {state.sub} of product {product.id}"
    if state.sub == "description":
        yield product.description
    elif state.sub == "features":
        yield from (f"- {bullet}" for bullet in product.bullets)
    elif state.sub == "attributes":
        yield from (f"- {attribute}" for attribute in product.attributes)
    elif product.reviews:
        yield from (f"- {review.score} of 5: {review.title}. {review.body}" for review in product.reviews)
    else:
        yield "Nobody has written a review."
    yield _buttons(["< Prev", "Back to Search"])


def _prices(low: int, high: int) -> str:
    return money(low) if low == high else f"{money(low)} to {money(high)}"


def stars(product: Product) -> str:
    """Return a product's rating in words."""
    if product.rating is None:
        return "not rated"
    count = len(product.reviews)
    said = f" ({count} review{'s' if count != 1 else ''})" if count else ""
    return f"{product.rating // 10}.{product.rating % 10} of 5{said}"


def _buttons(labels: list[str]) -> str:
    return "Buttons: " + " ".join(f"[{label}]" for label in labels)
