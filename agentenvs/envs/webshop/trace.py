"""What a turn showed, used and changed, for trainers and auditors; worked out from the pages shown, when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agentenvs.core.canon import JSON
from agentenvs.core.trace import Fact
from agentenvs.core.turn import TraceParts
from agentenvs.envs.webshop.actions import BUY, CHOOSE, CLICK, SEARCH, Command, command_text
from agentenvs.envs.webshop.rules import ITEM, RESULTS, SUB, State
from agentenvs_scenarios.webshop.model import Shop

Triple = tuple[str, str, str]


class Shown(NamedTuple):
    """A page as it was shown."""

    page: int
    product: int
    sub: str
    listed: tuple[int, ...]


def shown(state: State) -> Shown:
    """Return what the page shows now."""
    return Shown(state.page, state.product, state.sub, state.results[1] if state.page == RESULTS else ())


def parts(shop: Shop, history: list[Shown], command: Command | None, state: State) -> TraceParts:
    """Return the facts of the last turn.

    Args:
        shop: The shop.
        history: The pages shown, from the first observation to the last.
        command: What was done; None where it was no command.
        state: Where it led.
    """
    first: dict[Triple, int] = {}
    for turn, page in enumerate(history):
        for fact in _facts(shop, page):
            first.setdefault(fact, turn)
    observed = tuple(Fact(*fact, first[fact]) for fact in _facts(shop, history[-1]))
    if command is None:
        return TraceParts(observed=observed)
    before = history[-2] if len(history) > 1 else history[-1]
    used = tuple(Fact(*fact, first.get(fact)) for fact in _used(shop, before, command))
    written = tuple(Fact(*fact) for fact in _written(shop, before, command, state))
    done = tuple(f"bought {number}" for number in range(1, len(state.bought) + 1)) if command == (CLICK, BUY) else ()
    return TraceParts(observed, used, written, done, command_text(command))


def _facts(shop: Shop, page: Shown) -> Iterator[Triple]:
    for index in page.listed:
        product = shop.product(index)
        yield product.id, "listed", product.title
    if page.page not in (ITEM, SUB):
        return
    product = shop.product(page.product)
    if page.page == ITEM:
        yield product.id, "price", product.tag
        yield from ((product.id, group.name, value) for group in product.options for value in group.values)
    elif page.sub in ("features", "attributes"):
        yield from ((product.id, "attribute", attribute) for attribute in product.attributes)
    else:
        yield product.id, "read", page.sub


def _used(shop: Shop, before: Shown, command: Command) -> Iterator[Triple]:
    verb, argument = command
    wanted = argument.partition("\n")[2] if verb == CHOOSE else argument
    for fact in _facts(shop, before):
        named = fact[0].lower() == wanted if fact[1] == "listed" else fact[2] == wanted
        if verb != SEARCH and (named or wanted == BUY):
            yield fact


def _written(shop: Shop, before: Shown, command: Command, state: State) -> Iterator[Triple]:
    verb, argument = command
    if verb == SEARCH:
        yield "search", "query", argument
    elif argument == BUY and state.bought:
        index, chosen = state.bought[-1]
        yield "basket", "holds", shop.product(index).id
        yield from (("basket", name, value) for name, value in chosen)
    elif before.page == ITEM == state.page:
        yield from ((state.item.id, f"chosen {name}", value) for name, value in state.chosen.items())


def to_json(history: list[Shown]) -> JSON:
    """Return the JSON form of pages."""
    return [[page.page, page.product, page.sub, list(page.listed)] for page in history]


def from_json(form: JSON, size: int) -> list[Shown]:
    """Read back what :func:`to_json` wrote.

    Raises:
        ValueError: It is none, or refers to products a shop of that size does not have.
    """
    found = [Shown(page, product, sub, tuple(listed)) for page, product, sub, listed in form]
    for page in found:
        sound = type(page.page) is int and 0 <= page.page <= 4 and isinstance(page.sub, str)
        numbers = (*page.listed, *([page.product] if page.page in (ITEM, SUB) else []))
        if not sound or type(page.product) is not int or page.product < -1:
            raise ValueError(f"{page!r:.80} is no page")
        if not all(type(number) is int and 0 <= number < size for number in numbers):
            raise ValueError("a page shows a product that is not there")
    return found
