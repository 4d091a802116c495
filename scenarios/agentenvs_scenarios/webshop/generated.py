"""A shop without files: every product is a function of the shop's seed and its index.

Nothing is stored but what was looked at last; a million products take no more memory than a thousand. A large shop is
handed columns of what is so of its products (:mod:`agentenvs_scenarios.webshop.columns`), or it walks through a whole
kind. Ids look random and are a permutation of the indices, so that an id leads back to its index without a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from agentenvs.core.canon import digest
from agentenvs.core.errors import OptionError
from agentenvs.core.streams import derive
from agentenvs_scenarios.webshop.families import SIZE, Facts, family_of, kind_of
from agentenvs_scenarios.webshop.model import Product, Want, search_text
from agentenvs_scenarios.webshop.vocabulary import vocabulary
from agentenvs_scenarios.webshop.wording import bare, brand_names, product_of

if TYPE_CHECKING:  # numpy, which small shops do without
    from agentenvs_scenarios.webshop.columns import Columns

GENERATOR: Final = 3
"""Version of what seeds mean; a change makes other shops."""

DEFAULT_PRODUCTS: Final = 10_000
LEAST_PRODUCTS: Final = 1_000
MOST_PRODUCTS: Final = 10_000_000

LARGE: Final = 5_000
"""Products from which on a shop is handed columns, which are made with its search."""

_MOST_FAMILIES: Final = 4_096
_MOST_PRODUCTS: Final = 16_384
LETTERS: Final = "0123456789BCDFGHJKLMNPQRSTVWXYZA"
BITS: Final = 45
_MASK: Final = (1 << BITS) - 1
HALF: Final = 23


class GeneratedShop:
    """A generated shop; see :class:`~agentenvs_scenarios.webshop.model.Shop`.

    Args:
        seed: Which shop.
        size: How many products.

    Raises:
        OptionError: More than there are ids for.
    """

    loaded = False

    def __init__(self, seed: int, size: int) -> None:
        if size > MOST_PRODUCTS:
            raise OptionError(f"a shop does not hold {size:,} products", fix=f"the most is {MOST_PRODUCTS:,}")
        self.seed, self.size = seed, size
        self.key = derive(b"agentenvs/webshop", f"shop/{GENERATOR}/{seed}")
        self.digest = digest(["webshop/generated", GENERATOR, seed, size])
        self.columns: Columns | None = None
        self._brands = brand_names(self.key)
        self._ids = _Ids(self.key)
        self._families: dict[int, tuple[Facts, ...]] = {}
        self._products: dict[int, Product] = {}

    def __len__(self) -> int:
        """Return how many products there are."""
        return self.size

    @property
    def families(self) -> int:
        """How many families there are; the last may lack members."""
        return (self.size + SIZE - 1) // SIZE

    def product(self, index: int) -> Product:
        """Return a product."""
        found = self._products.get(index)
        if found is None:
            if not 0 <= index < self.size:
                raise IndexError(index)
            found = self.made(index)
            _keep(self._products, index, found, _MOST_PRODUCTS)
        return found

    def made(self, index: int) -> Product:
        """Return a product, made now and not kept: for whoever walks through all of them."""
        number, member = divmod(index, SIZE)
        facts = self.family(number)[member]
        return product_of(self.key, index, self.id_of(index), kind_of(number), facts, self._brands)

    def family(self, number: int) -> tuple[Facts, ...]:
        """Return the facts of a family."""
        found = self._families.get(number)
        if found is None:
            found = family_of(self.key, number)
            _keep(self._families, number, found, _MOST_FAMILIES)
        return found

    def present(self, number: int) -> tuple[Facts, ...]:
        """Return the facts of those members of a family that the shop has: all but of the last, which it may cut."""
        return self.family(number)[: len(self.members(number))]

    def members(self, number: int) -> range:
        """Return the indices of a family's products."""
        return range(number * SIZE, min((number + 1) * SIZE, self.size))

    def id_of(self, index: int) -> str:
        """Return the id of an index."""
        return self._ids.spell(index)

    def index(self, product_id: str) -> int:
        """Return the index of an id; -1 where there is none."""
        index = self._ids.read(product_id)
        return index if index < self.size else -1

    def kin(self, query: str, path: str) -> Iterator[Product]:
        """Yield every product of a kind, without words; products of other kinds certainly are not of it."""
        words = vocabulary()
        first = words.number(query)
        for number in range(first, self.families, len(words.kinds)) if first >= 0 else ():
            kind, family = kind_of(number), self.family(number)
            for index in self.members(number):
                yield bare(self.id_of(index), kind, family[index % SIZE])

    def likely(self, want: Want, lacking: int, bound: int | None) -> Iterator[Product]:
        """Yield what of a kind may be wanted: see :meth:`~agentenvs_scenarios.webshop.model.Shop.likely`."""
        if self.columns is None:
            yield from self.kin(want.query, want.path)
            return
        for index in self.columns.likely(want, lacking, bound):
            number, member = divmod(index, SIZE)
            yield bare(self.id_of(index), kind_of(number), self.family(number)[member])

    @property
    def order(self) -> Sequence[int]:
        """Indices of the products by their ids, which tell nothing of a product."""
        if self.size < LARGE:
            return sorted(range(self.size), key=self.id_of)
        from agentenvs_scenarios.webshop.columns import by_id

        return by_id(self._ids.factor, self._ids.shift, self.size)

    def documents(self) -> Iterator[str]:
        """Yield the text a search looks at, product by product."""
        return (search_text(self.made(index)) for index in range(self.size))


class _Ids:
    """A permutation of 45-bit integers, keyed, and its spelling in ten letters."""

    def __init__(self, key: bytes) -> None:
        drawn = int.from_bytes(derive(key, "ids"), "big")
        self.factor = (drawn & _MASK) | 1
        self._back = pow(self.factor, -1, 1 << BITS)
        self.shift = (drawn >> BITS) & _MASK

    def spell(self, index: int) -> str:
        """Return the id of an index."""
        value = index
        for _ in range(2):
            value = (value * self.factor + self.shift) & _MASK
            value ^= value >> HALF
        return "B" + "".join(LETTERS[(value >> at) & 31] for at in range(0, BITS, 5))

    def read(self, product_id: str) -> int:
        """Return the index of an id; one that no shop has where it is none."""
        if len(product_id) != 10 or product_id[0] != "B":
            return MOST_PRODUCTS
        value = 0
        for at, letter in enumerate(product_id[1:]):
            digit = LETTERS.find(letter)
            if digit < 0:
                return MOST_PRODUCTS
            value |= digit << (5 * at)
        for _ in range(2):
            value ^= value >> HALF
            value = ((value - self.shift) * self._back) & _MASK
        return value


def _keep(
    table: dict[int, object] | dict[int, Product] | dict[int, tuple[Facts, ...]], key: int, value: object, most: int
) -> None:
    table[key] = value  # type: ignore[assignment]
    if len(table) > most:
        table.pop(next(iter(table)), None)
