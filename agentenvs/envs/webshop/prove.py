"""Proofs about a goal: which products satisfy it, how near the others come, and in how many steps it can be done.

Every product of the shop that could be what is wanted is looked at, chosen as well as it can be for the goal, and given
to the rules of scoring: what earns full marks is in the set, what does not is not. Nothing of how the goal was made is
used. A large shop tells which products could be (:meth:`~agentenvs_scenarios.webshop.model.Shop.likely`), so that a
proof takes milliseconds there too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from agentenvs.envs.webshop.rules import PAGE_SIZE
from agentenvs_scenarios.webshop.model import NO_BOUND, OptionGroup, Product, Scenario, Want
from agentenvs_scoring.webshop import Purchase, exact, kinship

NEAR_ENOUGH: Final = 8
"""Near misses of a want that are counted."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known of a goal."""

    satisfying: tuple[tuple[str, ...], ...]
    """For each want, ids of the products that earn full marks, in order of their indices."""
    near: tuple[int, ...]
    """For each want, how many products of the kind lack exactly one thing (an attribute, an option, the price), at most
    :data:`NEAR_ENOUGH`."""

    @property
    def holds(self) -> bool:
        """Whether every want can be satisfied, and something comes near."""
        return all(self.satisfying) and all(self.near)


def prove(scenario: Scenario) -> Proof:
    """Return what is known of a goal, graded exactly."""
    goal = scenario.goal
    least = [_least(scenario, want) for want in goal.wants] if goal.budget is not None else []
    satisfying, near = [], []
    for at, want in enumerate(goal.wants):
        bound = want.bound
        if goal.budget is not None:
            others = [price for other, price in enumerate(least) if other != at]
            bound = -1 if None in others else goal.budget - sum(price or 0 for price in others)
        fitting = (one for one in _candidates(scenario, want, 0, bound) if one.price <= bound)
        satisfying.append(tuple(one.product.id for one in fitting if exact(one, want, cheap=True).reward == 1.0))
        missing = (one for one in _candidates(scenario, want, 1, NO_BOUND) if _lacks(one, want, bound) == 1)
        near.append(sum(1 for _ in islice(missing, NEAR_ENOUGH)))
    return Proof(tuple(satisfying), tuple(near))


def _least(scenario: Scenario, want: Want) -> int | None:
    """Return the least that something costs that has every attribute and option; None where nothing has."""
    fitting = (one for one in _candidates(scenario, want, 0, None) if _lacks(one, want, None) == 0)
    return min((one.price for one in fitting), default=None)


def _candidates(scenario: Scenario, want: Want, lacking: int, bound: int | None) -> Iterator[Purchase]:
    """Yield every product that could be wanted, chosen as well as can be."""
    for product in scenario.shop.likely(want, lacking, bound):
        if kinship(product, want) == 1.0:
            yield Purchase(product, chosen_for(product, want))


def chosen_for(product: Product, want: Want) -> dict[str, str]:
    """Return the choice that serves a want best: what it asks for where it is to be had, and else what costs least."""
    chosen: dict[str, str] = {}
    for name, value in want.options:
        for group in product.options:
            if name in ("", group.name) and value in _to_be_had(group) and group.name not in chosen:
                chosen[group.name] = value
                break
    for group in product.options:
        priced = [value for value in _to_be_had(group) if group.prices[group.values.index(value)] is not None]
        if group.name not in chosen and priced:
            chosen[group.name] = min(priced, key=lambda value: product.price({group.name: value}))
    return chosen


def _to_be_had(group: OptionGroup) -> list[str]:
    return [value for value, pieces in zip(group.values, group.stock, strict=True) if pieces != 0]


def _lacks(one: Purchase, want: Want, bound: int | None) -> int:
    """Return how many things are not as wanted; the price is left out where there is no bound."""
    attributes = sum(wanted not in one.product.attributes for wanted in want.attributes)
    worth = exact(one, want, cheap=True)
    options = len(want.options) - round(worth.options * len(want.options))
    return attributes + options + (bound is not None and one.price > bound)


def par(scenario: Scenario, search: Callable[[str], tuple[int, ...]]) -> int | None:
    """Return the turns the oracle needs: search the title, turn pages, open, choose, buy; None where in vain."""
    turns = 0
    for want in scenario.goal.wants:
        index = scenario.shop.index(want.product)
        found = search(title_query(want.title))
        if index not in found:
            return None
        turns += 1 + found.index(index) // PAGE_SIZE + 1 + len(want.options) + 1
    return turns


def title_query(title: str) -> str:
    """Return a title as a query: brackets would end the action, a leading tag would be a command of the original."""
    return " ".join(title.lower().translate({ord(letter): " " for letter in "[]<>"}).split())
