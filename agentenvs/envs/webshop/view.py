"""The original's words: its pages as ``text`` and ``text_rich``, byte for byte.

The original renders HTML and reads the visible texts out of it again. A page here is the list of those texts
(*nodes*), each with what it is: plain words, a button, a product's link, or the label of an option. ``text`` strips and
joins them; ``text_rich`` gives each a line and marks what can be clicked and what was. What HTML does to texts of
nothing but blanks happens here too: such a text is left out where it has a newline, and is a single blank otherwise.

Pages of results and of products are mostly the product's own words, so these are kept, once a product, as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, TypeAlias

from agentenvs.envs.webshop.rules import ITEM, RESULTS, START, SUB, State
from agentenvs_scenarios.webshop.model import OptionGroup, Product, range_tag

SEPARATOR: Final = " [SEP] "

PLAIN: Final = 0
BUTTON: Final = 1
LINK: Final = 2
LABEL: Final = 3

Node: TypeAlias = tuple[int, str]

_BLANK: Final = " \t\n\r\f"
_THANKS: Final = (
    "Thank you for shopping with us!",
    "Your code: ",
    "None",
    " (Paste it in your MTurk interface.)",
    "Purchased",
    "asin",
)
_TARGET: Final = (
    "attrs", "None", "category", "None", "query", "None", "product category", "None", "Target", "asin", "options",
    "attrs", "price upper",
    "instuction text",  # codespell:ignore instuction - the spelling of the original
    "category", "product category", "query", "Goal ", "None", "Reward",
    "Your score (min 0.0, max 1.0)",
)  # fmt: skip
_SCRIPT: Final = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", ord("'"): "\\u0027"}


def page_text(state: State, score: float | None = None) -> str:
    """Return the page as ``text``.

    Args:
        state: Where the shopper stands.
        score: The reward, which the last page prints.
    """
    if state.page == RESULTS:
        return _results_text(state)
    if state.page == ITEM:
        return _item_text(state)
    return SEPARATOR.join(words.strip() for _, words in nodes(state, score))


def page_rich(state: State, score: float | None = None) -> str:
    """Return the page as ``text_rich``; arguments as for :func:`page_text`."""
    address = state.address() if state.page == ITEM else ""
    clicked, lines = [], []
    for kind, words in nodes(state, score):
        if kind == BUTTON:
            lines.append(f"[button] {words} [button_]\n")
        elif kind == LABEL:
            if f'"{words}"' in address:
                clicked.append(words)
                lines.append(f"  [clicked button] {words} [clicked button_]\n")
            else:
                lines.append(f"  [button] {words} [button_]\n")
        elif kind == LINK:
            mark = "clicked " if state.scenario.shop.index(words) in state.visited else ""
            lines.append(f"\n[{mark}button] {words} [{mark}button_]\n")
        else:
            lines.append(f"{words}\n")
    # Each is put before all that is there already.
    return "".join(f"You have clicked {words}.\n" for words in reversed(clicked)) + "".join(lines)


def nodes(state: State, score: float | None = None) -> list[Node]:
    """Return the visible texts of the page, in order; arguments as for :func:`page_text`."""
    sentence = state.scenario.goal.sentence
    if state.page == START:
        return _seen([(PLAIN, "WebShop"), (PLAIN, "Instruction: "), (PLAIN, sentence), (BUTTON, "Search")])
    head = [(PLAIN, "Instruction:"), (PLAIN, sentence), (BUTTON, "Back to Search")]
    if state.page == RESULTS:
        return _seen(head + _results(state))
    if state.page == ITEM:
        return _seen([*head, (BUTTON, "< Prev"), *_item(state)])
    if state.page == SUB:
        return _seen([*head, (BUTTON, "< Prev"), *((PLAIN, words) for words in sub_texts(state))])
    return _seen([(PLAIN, words) for words in _done(state, score)])


def _results(state: State) -> list[Node]:
    found = [(PLAIN, f"Page {state.number} (Total results: {state.results[0]})")]
    if state.number > 1:
        found.append((BUTTON, "< Prev"))
    found.append((BUTTON, "Next >"))
    for index in state.results[1]:
        product = state.scenario.shop.product(index)
        found += [(LINK, product.id), (PLAIN, product.title), (PLAIN, product.tag)]
    return found


def _item(state: State) -> list[Node]:
    product = state.item
    found: list[Node] = []
    for group in product.options:
        found.append((PLAIN, group.name))
        found += [(LABEL, value) for value in offered(state, group)]
    found += [(PLAIN, product.title), (PLAIN, f"Price: {price_tag(state, product)}"), (PLAIN, "Rating: N.A.")]
    found += [(BUTTON, "Description"), (BUTTON, "Features"), (BUTTON, "Reviews")]
    if state.attributes_page:
        found.append((BUTTON, "Attributes"))
    return [*found, (BUTTON, "Buy Now")]


def offered(state: State, group: OptionGroup) -> Iterable[str]:
    """Return the values of an option that the page lists: those to be had, and in ``original`` all."""
    if state.profile == "original" or 0 not in group.stock:
        return group.values
    return [value for value, pieces in zip(group.values, group.stock, strict=True) if pieces != 0]


def price_tag(state: State, product: Product) -> str:
    """Return the price the page prints: of the product, or of what was chosen; ``original`` knows no such."""
    if state.profile == "original" or not state.chosen:
        return product.tag
    low, high = product.price(state.chosen)
    return product.tag if (low, high) == (product.low, product.high) else range_tag(low, high)


def sub_texts(state: State) -> list[str]:
    """Return the texts of a page about the product."""
    product = state.item
    if state.sub == "description":
        return [product.description]
    if state.sub == "features":
        return [f" {bullet}" for bullet in product.bullets]
    if state.sub == "attributes":
        attributes = [f" {attribute}" for attribute in product.attributes]
        return [*attributes, product.category, product.query, product.path]
    return []


def _done(state: State, score: float | None) -> list[str]:
    index, chosen = state.bought[-1]
    options = json.dumps(dict(chosen), sort_keys=True).translate(_SCRIPT)
    product = state.scenario.shop.product(index)
    return [*_THANKS, product.id, "options", options, *_TARGET, str(score), "Reward Details ", "None"]


def _seen(found: list[Node]) -> list[Node]:
    """Return the nodes that are there once the page is HTML."""
    if all(words.strip(_BLANK) for _, words in found):
        return found
    return [(kind, words if words.strip(_BLANK) else " ") for kind, words in found if words and not _is_gap(words)]


def _is_gap(words: str) -> bool:
    return "\n" in words and not words.strip(_BLANK)


# ---- what is kept of a product ---------------------------------------------------------------------------------------


class Kept:
    """Texts of products, by shop; filled as pages are shown.

    Args:
        most: How many of each sort are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.rows: dict[int, str] = {}
        self.items: dict[int, str] = {}

    def put(self, table: dict[int, str], index: int, text: str) -> str:
        """Keep a text; what has been there longest goes."""
        table[index] = text
        if len(table) > self._most:
            table.pop(next(iter(table)), None)
        return text


_KEPT: dict[str, Kept] = {}
_MOST_SHOPS: Final = 8
_MOST_TEXTS: Final = 12_000


def _kept(state: State) -> Kept:
    digest = state.scenario.shop.digest
    found = _KEPT.get(digest)
    if found is None:
        if len(_KEPT) >= _MOST_SHOPS:
            _KEPT.clear()
        found = _KEPT.setdefault(digest, Kept(_MOST_TEXTS))
    return found


def _joined(found: list[Node]) -> str:
    return SEPARATOR.join(words.strip() for _, words in _seen(found))


def _results_text(state: State) -> str:
    total, listed = state.results
    kept = _kept(state)
    parts = [_head(state), f"Page {state.number} (Total results: {total})"]
    if state.number > 1:
        parts.append("< Prev")
    parts.append("Next >")
    for index in listed:
        row = kept.rows.get(index)
        if row is None:
            product = state.scenario.shop.product(index)
            row = _joined([(LINK, product.id), (PLAIN, product.title), (PLAIN, product.tag)])
            kept.put(kept.rows, index, row)
        parts.append(row)
    return SEPARATOR.join(parts)


def _item_text(state: State) -> str:
    if state.attributes_page or (state.profile != "original" and state.chosen):
        return SEPARATOR.join((_head(state), "< Prev", _joined(_item(state))))
    kept = _kept(state)
    # Only `original` lists what is sold out.
    key = state.product if state.profile == "original" else -1 - state.product
    text = kept.items.get(key) or kept.put(kept.items, key, _joined(_item(state)))
    return SEPARATOR.join((_head(state), "< Prev", text))


def _head(state: State) -> str:
    return f"Instruction:{SEPARATOR}{state.scenario.goal.sentence.strip()}{SEPARATOR}Back to Search"
