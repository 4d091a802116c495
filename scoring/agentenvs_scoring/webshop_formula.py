"""The original web shop's reward, to the letter: a type factor times the share of attributes, options and price met.

Everything in it is fuzzy, and some of it is wrong (a colour is the first name of :data:`COLOURS` that the value
*contains*, so that ``rectangular`` is ``tan``; ``large`` passes for ``x-large``). That is the number the field has
published with, so it is kept here, and used where a scenario says ``formula``.
Source: S. Yao et al., "WebShop", 2022, section 3.2, and the behaviour of its code of 2024.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from agentenvs_scenarios.webshop.model import Product, Want, path_names
from agentenvs_scenarios.webshop.nouns import Nouns
from agentenvs_scoring.fuzzy import token_set_ratio

ALIKE: Final = 85
"""Percent of likeness that must be exceeded."""

_NAMES = (
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo "
    "caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream "
    "crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather "
    "indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha "
    "multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal "
    "rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise "
    "violet walnut wheat white wine yellow"
)
COLOURS: Final = tuple(_NAMES.split())
"""Names in the order in which they are looked for."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the formula is made of."""

    kind: float
    """Type factor: 1, 0.5, 0.1 or 0."""
    attributes: int
    options: int
    price: bool
    total: float


def formula(product: Product, chosen: Mapping[str, str], want: Want, nouns: Nouns) -> Parts:
    """Return what buying a product is worth.

    Args:
        product: What was bought.
        chosen: The values chosen, by the name of the option.
        want: What was asked for.
        nouns: The nouns of titles.
    """
    attributes = sum(_has_attribute(product, wanted) for wanted in want.attributes)
    options = _options(chosen.values(), want)
    price = product.charged <= want.bound
    kind = _kind(product, want, nouns)
    total = (attributes + options + price) / (len(want.attributes) + len(want.options) + 1)
    return Parts(kind, attributes, options, price, total * kind)


def _kind(product: Product, want: Want, nouns: Nouns) -> float:
    wanted = nouns.of(want.title)
    shared = len(set(nouns.of(product.title)) & set(wanted))
    # Shares are compared in integers; one fifth is what a title without nouns counts as.
    numerator, denominator = (shared, len(wanted)) if wanted else (1, 5)
    if numerator == 0:
        return 0.0
    if numerator * 10 < denominator:
        return 0.1
    same = product.query == want.query or len(path_names(product.path) & path_names(want.path)) >= 2
    return 1.0 if same or numerator * 5 > denominator else 0.5


def _has_attribute(product: Product, wanted: str) -> bool:
    if any(token_set_ratio(attribute, wanted) > ALIKE for attribute in product.attributes):
        return True
    return (
        wanted in product.title.lower()
        or wanted in " ".join(product.bullets).lower()
        or wanted in product.description.lower()
    )


def _options(chosen: Iterable[str], want: Want) -> int:
    bought = [_colour(value) for value in chosen]
    # A pair is spelt as Python spells one; a colour stands for it only where it is the whole value (or the name).
    wanted = [_pair_colour(pair) if want.pairs else _colour(pair[1]) for pair in want.options]
    return sum(any(token_set_ratio(value, other) > ALIKE for value in bought) for other in wanted)


def _colour(value: str) -> str:
    return next((colour for colour in COLOURS if colour in value), value)


def _pair_colour(pair: tuple[str, str]) -> str:
    return next((colour for colour in COLOURS if colour in pair), str(pair))
