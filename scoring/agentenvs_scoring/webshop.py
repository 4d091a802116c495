"""What a purchase in the web shop is worth.

The facts of an outcome are what was bought and with which options chosen; shop and goal are the scenario's. Graded
``exact``, every constraint of the goal holds or does not: the kind of product, each attribute by name, each option by
its value, the price of what was chosen in cents. The reward is the original's shape, type times the share of the
others that hold; 1 is success, and every product that satisfies the goal earns it. Graded ``formula``, the number is
the original's (:mod:`agentenvs_scoring.webshop_formula`). Of two wants, each gets the purchase that suits it best, and
the reward is their mean. What was not bought earns nothing, and a purchase counts only in an episode that terminated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

from agentenvs.core.canon import JSON
from agentenvs.core.portable import total
from agentenvs.core.verdict import Ending, Verdict
from agentenvs_scenarios.webshop.model import Product, Scenario, Want, path_names
from agentenvs_scoring.webshop_formula import formula

COMPONENTS: Final = ("type", "attributes", "options", "price")
_WORDS: Final = {
    "type": "the kind of product",
    "attributes": "its attributes",
    "options": "its options",
    "price": "its price",
}


@dataclass(frozen=True, slots=True)
class Purchase:
    """One thing bought."""

    product: Product
    chosen: Mapping[str, str]

    @property
    def price(self) -> int:
        """Cents it costs; the most it may, where a choice that sets the price was left open."""
        return self.product.price(dict(self.chosen))[1]


@dataclass(frozen=True, slots=True)
class Worth:
    """What a purchase is worth for a want: the components, each 0 to 1, and the reward."""

    kind: float
    attributes: float
    options: float
    price: float
    reward: float


NOTHING: Final = Worth(0.0, 0.0, 0.0, 0.0, 0.0)


def judge(scenario: Scenario, facts: Mapping[str, JSON], ending: Ending) -> Verdict:
    """Return the verdict on an outcome.

    Args:
        scenario: The scenario that was played.
        facts: ``turns``, and ``bought``: a list of ``{"product": id, "options": {name: value}}``.
        ending: How the episode ended; only what terminated can have earned anything.
    """
    bought = purchases(scenario, facts.get("bought")) if ending == "terminated" else []
    worths = best(scenario, bought)
    count = len(worths)
    components = {
        "type": total(worth.kind for worth in worths) / count,
        "attributes": total(worth.attributes for worth in worths) / count,
        "options": total(worth.options for worth in worths) / count,
        "price": total(worth.price for worth in worths) / count,
    }
    reward = total(worth.reward for worth in worths) / count
    success = reward == 1.0
    return Verdict(
        reward=reward,
        success=success,
        components=components,
        reasons=tuple(_reasons(components, bought, ending)),
        facts=dict(facts),
    )


def purchases(scenario: Scenario, listed: Any) -> list[Purchase]:
    """Return what was bought; what is no purchase in this shop is left out."""
    found: list[Purchase] = []
    for item in listed if isinstance(listed, list | tuple) else ():
        if not isinstance(item, Mapping):
            continue
        index = scenario.shop.index(str(item.get("product")))
        options = item.get("options")
        if index >= 0 and isinstance(options, Mapping):
            found.append(
                Purchase(scenario.shop.product(index), {str(name): str(options[name]) for name in sorted(options)})
            )
    return found[: len(scenario.goal.wants)]


def best(scenario: Scenario, bought: list[Purchase]) -> list[Worth]:
    """Return the worth of each want, the purchases shared out as suits best."""
    wants = scenario.goal.wants
    offered: list[Purchase | None] = [*bought, *[None] * (len(wants) - len(bought))]
    spent = sum(purchase.price for purchase in bought)
    shared = [
        [
            NOTHING if purchase is None else worth(scenario, purchase, want, spent)
            for purchase, want in zip(order, wants, strict=True)
        ]
        for order in permutations(offered)
    ]
    return max(shared, key=lambda worths: total(worth.reward for worth in worths))


def worth(scenario: Scenario, purchase: Purchase, want: Want, spent: int) -> Worth:
    """Return what a purchase is worth for a want.

    Args:
        scenario: Shop, goal and grading.
        purchase: What was bought.
        want: What was asked for.
        spent: Cents of the whole basket.
    """
    if scenario.grading == "formula":
        parts = formula(purchase.product, purchase.chosen, want, scenario.nouns)
        shares = _share(parts.attributes, len(want.attributes)), _share(parts.options, len(want.options))
        return Worth(parts.kind, *shares, float(parts.price), parts.total)
    budget = scenario.goal.budget
    return exact(purchase, want, purchase.price <= want.bound if budget is None else spent <= budget)


def exact(purchase: Purchase, want: Want, cheap: bool) -> Worth:
    """Return what a purchase is worth where every constraint holds or does not."""
    product, chosen = purchase.product, purchase.chosen
    has = set(product.attributes)
    attributes = sum(wanted in has for wanted in want.attributes)
    options = sum(_chose(chosen, name, value) for name, value in want.options)
    kind = kinship(product, want)
    met = (attributes + options + cheap) / (len(want.attributes) + len(want.options) + 1)
    return Worth(
        kind,
        _share(attributes, len(want.attributes)),
        _share(options, len(want.options)),
        float(cheap),
        met * kind,
    )


def kinship(product: Product, want: Want) -> float:
    """Return 1 for a product of the wanted kind, 0.5 for one that shares two names of its path, else 0."""
    if product.query == want.query or product.path == want.path:
        return 1.0
    return 0.5 if len(path_names(product.path) & path_names(want.path)) >= 2 else 0.0


def _chose(chosen: Mapping[str, str], name: str, value: str) -> bool:
    return chosen.get(name) == value if name else value in chosen.values()


def _share(met: int, asked: int) -> float:
    return met / asked if asked else 1.0


def _reasons(components: Mapping[str, float], bought: list[Purchase], ending: Ending) -> Iterable[str]:
    if ending != "terminated":
        yield f"the episode was {ending}, which earns nothing"
    elif not bought:
        yield "nothing was bought"
    else:
        for name in COMPONENTS:
            said = "yes" if components[name] == 1.0 else "no" if components[name] == 0.0 else "in part"
            yield f"{said}: {_WORDS[name]}"
