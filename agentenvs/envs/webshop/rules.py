"""What happens in the shop, without words: pages, choices, purchases.

A state is where the shopper stands (a page), what the pages before have left behind (query, number of the page,
choices, products looked at) and what was bought. The original finds out which page it is on by looking for a word in
the page's address, which holds the query; a query with such a word misleads it. ``original`` keeps that
(:meth:`State.place`), the other profiles know where they are.

The results of a search come from outside through ``find``; in ``original`` they are an effect, because the original
asks a search engine of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from agentenvs.envs.webshop.actions import (
    BACK,
    BUY,
    CHOOSE,
    NEXT,
    NO_SEARCH_BAR,
    NO_SUCH_LABEL,
    PREV,
    SEARCH,
    SOLD_OUT,
    SUB_PAGES,
    Command,
)
from agentenvs_scenarios.webshop.model import Product, Scenario

Profile: TypeAlias = Literal["original", "compat", "native"]

START: Final = 0
RESULTS: Final = 1
ITEM: Final = 2
SUB: Final = 3
DONE: Final = 4

PAGE_SIZE: Final = 10
MOST_RESULTS: Final = 50

Results: TypeAlias = tuple[int, tuple[int, ...]]
"""How many products were found, and those of the page, by index."""
Find: TypeAlias = Callable[[str, int], Results]

_BUTTON: Final = ("button", "")
_PLACES: Final = (("search_results", RESULTS), ("item_page", ITEM), ("item_sub_page", SUB), ("done", DONE))


class State:
    """Where a shopper stands.

    Args:
        scenario: Shop and goal.
        profile: Which rules.
        attributes_page: Whether products have a page of attributes.
    """

    __slots__ = (
        "attributes_page",
        "bought",
        "chosen",
        "number",
        "page",
        "product",
        "profile",
        "query",
        "results",
        "scenario",
        "sub",
        "visited",
    )

    def __init__(self, scenario: Scenario, profile: Profile, *, attributes_page: bool = False) -> None:
        self.scenario = scenario
        self.profile = profile
        self.attributes_page = attributes_page
        self.bought: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = ()
        self.page = START
        self._restart()

    def _restart(self) -> None:
        self.page = START
        self.query = ""
        self.number = 1
        self.product = -1
        self.chosen: dict[str, str] = {}
        self.sub = ""
        self.visited: frozenset[int] = frozenset()
        self.results: Results = (0, ())

    @property
    def item(self) -> Product:
        """The product whose page is open."""
        return self.scenario.shop.product(self.product)

    @property
    def ended(self) -> bool:
        """Whether as much was bought as was asked for."""
        return self.page == DONE

    def copy(self) -> State:
        """Return an independent copy."""
        twin = object.__new__(State)
        for name in State.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.chosen = dict(self.chosen)
        return twin

    def key(self) -> int:
        """Return the key of the state: equal for equal states, whatever the path."""
        form = (
            self.page,
            self.query,
            self.number,
            self.product,
            tuple(self.chosen.items()),
            self.sub,
            sorted(self.visited),
            self.results,
            self.bought,
        )
        return int.from_bytes(hashlib.blake2b(repr(form).encode(), digest_size=16).digest(), "big")

    def place(self) -> int:
        """Return the page it is, or in ``original`` the page its address seems to be."""
        if self.profile != "original" or self.page == START:
            return self.page
        address = self.address()
        return next((place for word, place in _PLACES if word in address), START)

    def address(self) -> str:
        """Return the page's address as far as the original looks at it."""
        words = "+".join(self.query.split(" "))
        if self.page == RESULTS:
            return f"/search_results/{words}/{self.number}"
        if self.page == ITEM:
            return f"/item_page/{self.item.id}/{words}/{self.number}/{json.dumps(self.chosen)}"
        if self.page == SUB:
            return f"/item_sub_page/{self.item.id}/{words}/{self.number}/{self.sub}/{self.chosen}"
        return "/done" if self.page == DONE else "/"

    def has_next(self) -> bool:
        """Whether a page of results leads to another; in ``native`` only where there is one."""
        return self.profile != "native" or self.number * PAGE_SIZE < self.results[0]

    def labels(self) -> dict[str, tuple[str, str]]:
        """Return what can be clicked, by label in lower case, in the page's order: what it is, and a name.

        A label that stands for two things means the last of them.
        """
        if self.page == RESULTS:
            return self._listed()
        if self.page == ITEM:
            return self._offered()
        if self.page == SUB:
            return {BACK: _BUTTON, PREV: _BUTTON}
        return {SEARCH: ("search", "")} if self.page == START else {}

    def _listed(self) -> dict[str, tuple[str, str]]:
        found = {BACK: _BUTTON}
        if self.number > 1:
            found[PREV] = _BUTTON
        if self.has_next():
            found[NEXT] = _BUTTON
        product = self.scenario.shop.product
        for index in self.results[1]:
            found[product(index).id.lower()] = ("product", str(index))
        return found

    def _offered(self) -> dict[str, tuple[str, str]]:
        found = {BACK: _BUTTON, PREV: _BUTTON}
        found.update(dict.fromkeys(SUB_PAGES[: 4 if self.attributes_page else 3], _BUTTON))
        found[BUY] = _BUTTON
        for group in self.item.options:
            for at, value in enumerate(group.values):
                if self.profile == "original" or group.stock[at] != 0:
                    found[value] = ("option", group.name)
        return found

    # ---- transitions -------------------------------------------------------------------------------------------------

    def act(self, command: Command, find: Find) -> str | None:
        """Do a command; returns an error code where it cannot be done, and then changes nothing."""
        verb, argument = command
        if verb == SEARCH:
            if self.profile == "native" and self.page != START:
                return NO_SEARCH_BAR
            self._show(argument, 1, find)
            return None
        if verb == CHOOSE:
            name, _, value = argument.partition("\n")
            return self._choose_named(name, value)
        if argument == SEARCH:
            return NO_SUCH_LABEL
        meaning = self.labels().get(argument)
        if meaning is None:
            return SOLD_OUT if self._is_sold_out(argument) else NO_SUCH_LABEL
        self._click(argument, meaning, find)
        return None

    def _click(self, label: str, meaning: tuple[str, str], find: Find) -> None:
        """Do a click as the original sorts them out: by label first, whatever it is that bears it."""
        place = self.place()
        if label == BUY:
            self._buy()
        elif label == BACK:
            self._restart()
        elif label == NEXT and place == RESULTS:
            self._show(self.query, self.number + 1, find)
        elif label == PREV and place == RESULTS:
            self._show(self.query, self.number - 1, find)
        elif label == PREV and place == ITEM:
            self._show(self.query, self.number, find)
        elif label in SUB_PAGES:
            self.page, self.sub = SUB, label
        else:
            self._open(label, meaning)

    def _open(self, label: str, meaning: tuple[str, str]) -> None:
        """Show a product's page: of the product clicked, or of the one that is open with what was chosen."""
        kind, name = meaning
        if kind == "product":
            self.product = int(name)
            self.visited |= {self.product}
        elif kind == "option":
            self.chosen[name] = label
        self.page, self.sub = ITEM, ""

    def _show(self, query: str, number: int, find: Find) -> None:
        self.results = find(query, number)
        self.query, self.number = query, number
        self.page, self.product, self.sub = RESULTS, -1, ""
        self.chosen = {}

    def _buy(self) -> None:
        self.bought += ((self.product, tuple(self.chosen.items())),)
        if len(self.bought) >= len(self.scenario.goal.wants):
            self.page, self.sub = DONE, ""
        else:
            self._restart()

    def _choose_named(self, name: str, value: str) -> str | None:
        if self.page != ITEM:
            return NO_SUCH_LABEL
        for group in self.item.options:
            if group.name == name and value in group.values:
                if group.stock[group.values.index(value)] == 0:
                    return SOLD_OUT
                self.chosen[name] = value
                return None
        return NO_SUCH_LABEL

    def _is_sold_out(self, label: str) -> bool:
        return self.page == ITEM and any(label in group.values for group in self.item.options)
