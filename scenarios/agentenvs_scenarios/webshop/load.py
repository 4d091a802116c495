"""The field's real data, read into the same nouns: products as the original's engine makes them of its raw files.

What is odd in the data stays as the original reads it: ids longer than ten characters and doubled ones are left out, a
missing price is $100, a slash in an option becomes ``|``, a doubled value stays doubled. What would crash the original
(a price text without a price) is read as missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from itertools import islice
from pathlib import Path
from typing import Any, Final

from agentenvs.core.canon import clean_text, digest
from agentenvs.core.errors import DataError
from agentenvs.core.streams import Stream
from agentenvs_scenarios.webshop.fields import Form, reading, rows, table, text, texts, wrong
from agentenvs_scenarios.webshop.files import Files, find, read_json, read_rows, unpacked
from agentenvs_scenarios.webshop.model import OptionGroup, Product, Review, Want, search_text
from agentenvs_scenarios.webshop.pictures import spelt

NO_PRICE: Final = Decimal(100)
"""Dollars the original takes where a price is missing."""

DUMMY: Final = ("DUMMY_ATTR",)
"""Attributes of a product that the attribute file does not know."""

_PRICES: Final = b"agentenvs/webshop/prices"
_MOST_DOLLARS: Final = 1_000_000
_NOT_PRICE = re.compile(r"[^0-9.]")
_ONE_PRICE = re.compile(r"\$([0-9,]{1,12}(?:\.[0-9]{1,6})?)")


@dataclass(frozen=True, slots=True)
class Instruction:
    """What somebody wrote for a product."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Notes:
    """What goals are made of beside a product."""

    instruction: str
    """The synthetic one; empty where there is none."""
    attributes: tuple[str, ...]
    """Those the synthetic instruction asks for."""
    human: tuple[Instruction, ...]


class LoadedShop:
    """A shop read from files; see :class:`~agentenvs_scenarios.webshop.model.Shop`.

    Args:
        products: Its products.
        digest_of_files: SHA-256 of the files' contents.
        notes: What goals are made of beside the product, by id.
    """

    loaded = True

    def __init__(self, products: list[Product], digest_of_files: str, notes: Mapping[str, Notes]) -> None:
        self.digest = digest(["webshop/loaded/1", digest_of_files])
        self.notes = notes
        self._products = products
        self._index = {product.id: index for index, product in enumerate(products)}

    def __len__(self) -> int:
        """Return how many products there are."""
        return len(self._products)

    def product(self, index: int) -> Product:
        """Return a product."""
        return self._products[index]

    def index(self, product_id: str) -> int:
        """Return the index of an id; -1 where there is none."""
        return self._index.get(product_id, -1)

    def kin(self, query: str, path: str) -> Iterator[Product]:
        """Yield every product: any of them may share a part of a path."""
        return iter(self._products)

    def likely(self, want: Want, lacking: int, bound: int | None) -> Iterator[Product]:
        """Yield every product."""
        return iter(self._products)

    @property
    def order(self) -> Sequence[int]:
        """Indices of the products by their ids, as the original's engine orders equal scores."""
        return sorted(range(len(self._products)), key=lambda index: self._products[index].id)

    def documents(self) -> Iterator[str]:
        """Yield the text a search looks at, product by product."""
        return (spelt(search_text(product)) for product in self._products)


def load_shop(folder: Path, limit: int | None = None) -> LoadedShop:
    """Return the shop of a data folder.

    Args:
        folder: See :mod:`agentenvs_scenarios.webshop.files`.
        limit: Take the first so many rows, as the original's ``num_products``.

    Raises:
        DataError: A file cannot be used.
    """
    found = find(folder)
    return _exported(found, limit) if found.exported else _raw(found, limit)


def _raw(found: Files, limit: int | None) -> LoadedShop:
    attributes, human, prices = (_entries(path) for path in (found.attributes, found.human, found.prices))
    products: dict[str, Product] = {}
    notes: dict[str, Notes] = {}
    for row in islice(read_rows(found.products), limit):
        asin = row.get("asin")
        if not isinstance(asin, str) or asin == "nan" or len(asin) > 10 or asin in products:
            continue
        name = f"product {ascii(asin)[1:-1]}"
        with reading(found.attributes or found.products, name):
            known = table(attributes.get(asin), "its entry")
            listed = None if known.get("attributes") is None else texts(known, "attributes")
            instruction = text(known, "instruction", ""), texts(known, "instruction_attributes")
        with reading(found.human or found.products, name):
            written = _written(human.get(asin), "its entry")
        with reading(found.prices or found.products, name):
            drawn = _drawn(prices.get(asin))
        with reading(found.products, name):
            products[asin] = _product(row, listed, drawn)
        notes[asin] = Notes(*instruction, written)
    return _shop(products, found, notes)


def _entries(path: Path | None) -> Form:
    """Return a file's entries by product; none where there is no file."""
    if path is None:
        return {}
    with reading(path, "the whole of it"):
        found = read_json(path)
        if not isinstance(found, Mapping):
            raise wrong("it", found, "a table of products")
        return found


def _exported(found: Files, limit: int | None) -> LoadedShop:
    prices = _entries(found.prices)
    products: dict[str, Product] = {}
    notes: dict[str, Notes] = {}
    for packed in islice(read_rows(found.products), limit):
        row = unpacked(packed)
        asin = row.get("asin")
        if not isinstance(asin, str) or asin in products:
            continue
        name = f"product {ascii(asin)[1:-1]}"
        with reading(found.prices or found.products, name):
            drawn = _drawn(prices.get(asin))
        with reading(found.products, name):
            listed = None if row.get("Attributes") is None else texts(row, "Attributes")
            products[asin] = _product(_as_raw(row), listed, drawn)
            instruction = text(row, "instruction_text", ""), texts(row, "instruction_attributes")
            notes[asin] = Notes(*instruction, _written(row.get("instructions"), "instructions"))
    return _shop(products, found, notes)


def _written(value: Any, name: str) -> tuple[Instruction, ...]:
    found = []
    for form in rows(value, name):
        attributes = texts(form, "instruction_attributes")
        # One that names no attribute is no goal, whatever it says.
        said = text(form, "instruction", None if attributes else "")
        found.append(Instruction(said, attributes, texts(form, "instruction_options")))
    return tuple(found)


def _drawn(value: Any) -> Decimal | None:
    """Return a frozen price in dollars."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong("its price", value, "a number")
    if not 0 <= value < _MOST_DOLLARS:
        raise ValueError(f"its price {value!r} is none")
    return Decimal(repr(value))


def _shop(products: dict[str, Product], found: Files, notes: dict[str, Notes]) -> LoadedShop:
    if not products:
        raise DataError(f"{found.products} holds no product", fix="give the file that the field's download brings")
    named = {product.id: notes[asin] for asin, product in products.items()}
    return LoadedShop(list(products.values()), found.digest(), named)


def _as_raw(row: Form) -> dict[str, Any]:
    """Return a processed row in the raw schema."""
    options = table(row.get("options"), "options")
    pricing = row.get("pricing") or []
    return {
        **row,
        "pricing": " - ".join(f"${price}" for price in pricing) if isinstance(pricing, list) else pricing,
        "customization_options": {name: [{"value": value} for value in texts(options, name)] for name in options},
    }


def _product(row: Form, attributes: tuple[str, ...] | None, drawn: Decimal | None) -> Product:
    pricing = _pricing(row.get("pricing"))
    low, high = (_cents(pricing[0]), _cents(pricing[-1]))
    bullets = row.get("small_description")
    return Product(
        id=text(row, "asin"),
        title=text(row, "name"),
        tag=" to ".join(f"${float(price)}" for price in pricing),
        low=min(low, high),
        high=max(low, high),
        charged=_charged(row["asin"], low, high) if drawn is None else _cents(drawn),
        category=text(row, "category"),
        query=text(row, "query").lower().strip(),
        path=text(row, "product_category"),
        attributes=DUMMY if attributes is None else attributes,
        options=_options(row.get("customization_options")),
        description=text(row, "full_description", ""),
        bullets=tuple(_bullets(bullets if isinstance(bullets, list) else [bullets])),
        rating=_rating(row.get("average_rating")),
        reviews=tuple(_reviews(row.get("Reviews"))),
    )


def _bullets(items: list[Any]) -> Iterator[str]:
    for item in items:
        if item is not None and not isinstance(item, str):
            raise wrong("something in small_description", item, "a text")
        yield clean_text(item or "")


def _pricing(price: Any) -> tuple[Decimal, ...]:
    """Return one price or two, in dollars."""
    parts = [_NOT_PRICE.sub("", part) for part in price.split("$")[1:]] if isinstance(price, str) else []
    try:
        prices = [Decimal(part) for part in parts if part.strip(".")]
    except InvalidOperation:
        raise ValueError(f"pricing {price!a:.60} is none") from None
    if any(found >= _MOST_DOLLARS for found in prices):
        raise ValueError(f"pricing {price!a:.60} is beyond {_MOST_DOLLARS:,} dollars")
    return tuple(prices[:2]) or (NO_PRICE,)


def _cents(dollars: Decimal) -> int:
    """Return dollars in whole cents, rounded up: whether a price exceeds a bound of whole cents stays as it is."""
    return int((dollars * 100).to_integral_value(ROUND_CEILING))


def _charged(asin: str, low: int, high: int) -> int:
    """Return the price that is compared with the bound: drawn from the range once, by the product's name."""
    if low == high:
        return low
    return min(low, high) + Stream(_PRICES, asin).below(abs(high - low) + 1)


def _options(value: Any) -> tuple[OptionGroup, ...]:
    groups: dict[str, OptionGroup] = {}
    for name, contents in table(value, "customization_options").items():
        if contents is None:
            continue
        items = rows(contents, f"option {name!a}")
        groups[name.lower()] = OptionGroup(
            name=clean_text(name.lower()),
            values=tuple(text(item, "value").strip().replace("/", " | ").lower() for item in items),
            prices=tuple(_option_price(item.get("price_string")) for item in items),
            stock=tuple(0 if item.get("is_available") is False else None for item in items),
        )
    return tuple(groups.values())


def _option_price(value: Any) -> int | None:
    """Return the price of an option, where its text is one price."""
    found = _ONE_PRICE.fullmatch(value.strip()) if isinstance(value, str) else None
    return _cents(Decimal(found[1].replace(",", ""))) if found else None


def _rating(value: Any) -> int | None:
    """Return stars in tenths; the files mix numbers and texts."""
    try:
        stars = Decimal(str(value))
    except InvalidOperation:
        return None
    return int(stars * 10) if stars.is_finite() and 0 < stars <= 5 else None


def _reviews(value: Any) -> Iterator[Review]:
    for row in rows(value, "Reviews"):
        score = row.get("score", row.get("stars"))
        yield Review(
            clean_text(str(row.get("title", ""))),
            int(score) if isinstance(score, int | float) and 1 <= score <= 5 else 1,
            clean_text(str(row.get("body", row.get("review", "")))),
        )
