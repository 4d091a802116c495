"""The nouns of the web shop and what is asked in it.

A :class:`Scenario` is a shop and a goal. The shop is a large thing many scenarios share, so it stands in a scenario as
an object with a digest (:class:`Shop`) and not as data: a generated shop makes its products when they are looked at,
a loaded one has read them from files. Products are visible to whoever looks; the goal's wants are hidden behind its
sentence. Money is in integer cents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from agentenvs.core.canon import JSON, digest
from agentenvs.core.task import SECRET
from agentenvs_scenarios.webshop.nouns import WORDS, Nouns

Grading: TypeAlias = Literal["formula", "exact"]
"""``formula``: the original's fuzzy number. ``exact``: every constraint holds or does not."""

PATH_MARK: Final = "\u203a"
"""Stands between the names of a path."""

NO_BOUND: Final = 100_000_000
"""Cents: a bound that no price exceeds, for goals that name none (a million dollars, as in the original)."""


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """One thing to choose: a name and its values, lower-case."""

    name: str
    values: tuple[str, ...]
    prices: tuple[int | None, ...]
    """Cents a product costs with each value, where the value has a price of its own."""
    stock: tuple[int | None, ...]
    """Pieces to be had of each value; None where the shop does not say."""


@dataclass(frozen=True, slots=True)
class Review:
    """What a customer wrote."""

    title: str
    score: int
    """Stars, 1 to 5."""
    body: str


@dataclass(frozen=True, slots=True)
class Product:
    """Something to buy."""

    id: str
    title: str
    tag: str
    """The price as the shop prints it: ``$24.99``, or ``$6.63 to $8.37``."""
    low: int
    high: int
    """Cents; equal where there is one price."""
    charged: int
    """Cents the original's reward compares with the bound: one draw from the range."""
    category: str
    query: str
    """Name of the kind of product, under which the field's products were collected; no page shows it."""
    path: str
    """Names from the general to the special, :data:`PATH_MARK` between them."""
    attributes: tuple[str, ...]
    options: tuple[OptionGroup, ...]
    description: str
    bullets: tuple[str, ...]
    rating: int | None = None
    """Tenths of a star; None where nobody rated."""
    reviews: tuple[Review, ...] = ()

    def price(self, chosen: dict[str, str]) -> tuple[int, int]:
        """Return the least and the most it costs as chosen, in cents: equal once a priced value is chosen."""
        found = -1
        for group in self.options:
            value = chosen.get(group.name)
            if value is not None and value in group.values:
                price = group.prices[group.values.index(value)]
                if price is not None and price > found:
                    found = price
        return (self.low, self.high) if found < 0 else (found, found)


class Shop(Protocol):
    """Products by index, the same for whoever looks."""

    @property
    def digest(self) -> str:
        """SHA-256 that fixes every product."""

    @property
    def loaded(self) -> bool:
        """Whether it was read from files."""

    def __len__(self) -> int:
        """Return how many products there are."""

    def product(self, index: int) -> Product:
        """Return a product."""

    def index(self, product_id: str) -> int:
        """Return the index of a product's id; -1 where there is none."""

    def kin(self, query: str, path: str) -> Iterator[Product]:
        """Yield, in order of index, every product that could be of a kind: all others certainly are not."""

    def likely(self, want: Want, lacking: int, bound: int | None) -> Iterator[Product]:
        """Yield, in order of index, all products that may be what is wanted: some, as is to be seen, are not.

        Args:
            want: What is asked for.
            lacking: How many of its attributes and options may be missing.
            bound: Cents a product may cost, chosen as wanted; of those of least price alone where it is None.
        """

    @property
    def order(self) -> Sequence[int]:
        """Indices of the products in the order in which a search puts those of equal score."""

    def documents(self) -> Iterator[str]:
        """Yield the text a search looks at, product by product."""


@dataclass(frozen=True, slots=True)
class Want:
    """One thing asked for."""

    product: str = field(metadata=SECRET)
    """Id of a product that is right; others may be."""
    title: str = field(metadata=SECRET)
    query: str = field(metadata=SECRET)
    path: str = field(metadata=SECRET)
    attributes: tuple[str, ...] = field(metadata=SECRET)
    options: tuple[tuple[str, str], ...] = field(metadata=SECRET)
    """``(name, value)``; the name is empty where only the value is asked for."""
    bound: int = field(metadata=SECRET)
    """Cents it may cost at most."""
    pairs: bool = field(default=True, metadata=SECRET)
    """Whether the original compares options as pairs (its synthetic goals) or as plain values (its human ones)."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked."""

    sentence: str
    """What a player reads."""
    wants: tuple[Want, ...] = field(metadata=SECRET)
    """One, or two where a basket is asked for."""
    budget: int | None = field(default=None, metadata=SECRET)
    """Cents the whole basket may cost; the wants' own bounds count where it is None."""
    kind: str = field(default="", metadata=SECRET)
    """Rung of the ladder, or where a loaded goal comes from."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A shop and a goal."""

    name: str = field(metadata=SECRET)
    shop: Shop
    goal: Goal
    grading: Grading = "exact"
    nouns: Nouns = WORDS
    """What says which nouns a title has; only the formula asks."""
    _digest: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """SHA-256 over the shop's digest, the goal and how it is graded, as 64 hexadecimal digits."""
        if not self._digest:
            self._digest.append(digest(self.to_json()))
        return self._digest[0]

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form; the shop is named by its digest."""
        goal = asdict(self.goal)
        goal["wants"] = [
            {**want, "attributes": list(want["attributes"]), "options": [list(pair) for pair in want["options"]]}
            for want in goal["wants"]
        ]
        return {
            "name": self.name,
            "shop": self.shop.digest,
            "goal": goal,
            "grading": self.grading,
            "nouns": self.nouns.digest,
        }


def path_names(path: str) -> set[str]:
    """Return the names in a path."""
    return {name.strip() for name in path.split(PATH_MARK)}


def money(cents: int) -> str:
    """Return cents as a reader expects them: ``$24.99``."""
    return f"${cents // 100}.{cents % 100:02d}"


def tag_of(cents: int) -> str:
    """Return cents as the original prints a price, without trailing zeros but one: ``$36.0``."""
    whole, rest = divmod(cents, 100)
    return f"${whole}.{rest // 10}" if rest % 10 == 0 else f"${whole}.{rest:02d}"


def range_tag(low: int, high: int) -> str:
    """Return a price or a range of prices as the original prints it."""
    return tag_of(low) if low == high else f"{tag_of(low)} to {tag_of(high)}"


def search_text(product: Product) -> str:
    """Return the text a search looks at: title, description, first bullet, options; lower-case."""
    first = product.bullets[0] if product.bullets else ""
    chosen = ", and ".join(f"{group.name}: {', '.join(group.values)}" for group in product.options)
    return f"{product.title} {product.description} {first} {chosen}".lower()
