"""Proofs about a goal: which products satisfy it, how near the others come, and in how many steps it can be done.

Every product of the shop that could be of the wanted kind is looked at, chosen as well as it can be for the goal, and
given to the rules of scoring: what earns full marks is in the set, what does not is not. Nothing of how the goal was
made is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentenvs.envs.webshop.rules import PAGE_SIZE
from agentenvs_scenarios.webshop.model import OptionGroup, Product, Scenario, Want
from agentenvs_scoring.webshop import Purchase, exact, kinship


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known of a goal."""

    satisfying: tuple[tuple[str, ...], ...]
    """For each want, ids of the products that earn full marks, in order of their indices."""
    near: tuple[int, ...]
    """For each want, how many products of the kind lack exactly one thing: an attribute, an option or the price."""

    @property
    def holds(self) -> bool:
        """Whether every want can be satisfied, and something comes near."""
        return all(self.satisfying) and all(self.near)


def prove(scenario: Scenario) -> Proof:
    """Return what is known of a goal, graded exactly."""
    goal = scenario.goal
    candidates = [list(_candidates(scenario, want)) for want in goal.wants]
    fitting = [
        [one for one in found if _lacks(one, want, None) == 0]
        for found, want in zip(candidates, goal.wants, strict=True)
    ]
    least = [min((one.price for one in found), default=None) for found in fitting]
    satisfying, near = [], []
    for at, want in enumerate(goal.wants):
        bound = want.bound
        if goal.budget is not None:
            others = [price for other, price in enumerate(least) if other != at]
            bound = -1 if None in others else goal.budget - sum(price or 0 for price in others)
        satisfying.append(
            tuple(one.product.id for one in fitting[at] if exact(one, want, one.price <= bound).reward == 1.0)
        )
        near.append(sum(_lacks(one, want, bound) == 1 for one in candidates[at]))
    return Proof(tuple(satisfying), tuple(near))


def _candidates(scenario: Scenario, want: Want) -> Iterator[Purchase]:
    """Yield every product that could be of the kind, chosen as well as can be."""
    for product in scenario.shop.kin(want.query, want.path):
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
