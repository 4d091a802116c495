"""The field's real data, read into the same nouns: products as the original's engine makes them of its raw files.

What is odd in the data stays as the original reads it: ids longer than ten characters and doubled ones are left out, a
missing price is $100, a slash in an option becomes ``|``, a doubled value stays doubled. What would crash the original
(a price text without a price) is read as missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from agentenvs.core.canon import clean_text, digest
from agentenvs.core.errors import DataError
from agentenvs.core.streams import Stream
from agentenvs_scenarios.webshop.files import Files, find, read_json, read_rows, unpacked, unusable
from agentenvs_scenarios.webshop.model import OptionGroup, Product, Review, search_text

NO_PRICE: Final = Decimal(100)
"""Dollars the original takes where a price is missing."""

DUMMY: Final = ("DUMMY_ATTR",)
"""Attributes of a product that the attribute file does not know."""

_PRICES: Final = b"agentenvs/webshop/prices"
_NOT_PRICE = re.compile(r"[^\d.]")


class LoadedShop:
    """A shop read from files; see :class:`~agentenvs_scenarios.webshop.model.Shop`.

    Args:
        products: Its products.
        digest_of_files: SHA-256 of the files' contents.
        notes: What goals are made of beside the product, by id.
    """

    loaded = True

    def __init__(self, products: list[Product], digest_of_files: str, notes: Mapping[str, Mapping[str, Any]]) -> None:
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

    def documents(self) -> Iterator[str]:
        """Yield the text a search looks at, product by product."""
        return map(search_text, self._products)


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
    attributes = read_json(found.attributes) if found.attributes else {}
    human = read_json(found.human) if found.human else {}
    prices = read_json(found.prices) if found.prices else {}
    products: list[Product] = []
    notes: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(read_rows(found.products)):
        if limit is not None and number >= limit:
            break
        asin = row.get("asin")
        if not isinstance(asin, str) or asin == "nan" or len(asin) > 10 or asin in notes:
            continue
        known = attributes.get(asin) or {}
        notes[asin] = {
            "instruction": known.get("instruction"),
            "instruction_attributes": known.get("instruction_attributes") or (),
            "human": human.get(asin) or (),
        }
        try:
            products.append(_product(row, known.get("attributes"), prices.get(asin)))
        except (KeyError, TypeError, ValueError, AttributeError, InvalidOperation) as error:
            raise unusable(found.products, f"product {asin}: {error!r}") from error
    return _shop(products, found, notes)


def _exported(found: Files, limit: int | None) -> LoadedShop:
    prices = read_json(found.prices) if found.prices else {}
    products: list[Product] = []
    notes: dict[str, dict[str, Any]] = {}
    for number, packed in enumerate(read_rows(found.products)):
        if limit is not None and number >= limit:
            break
        row = unpacked(packed)
        asin = row.get("asin")
        if not isinstance(asin, str) or asin in notes:
            continue
        notes[asin] = {
            "instruction": row.get("instruction_text"),
            "instruction_attributes": row.get("instruction_attributes") or (),
            "human": row.get("instructions") or (),
        }
        try:
            products.append(_product(_as_raw(row), row.get("Attributes"), prices.get(asin)))
        except (KeyError, TypeError, ValueError, AttributeError, InvalidOperation) as error:
            raise unusable(found.products, f"product {asin}: {error!r}") from error
    return _shop(products, found, notes)


def _shop(products: list[Product], found: Files, notes: dict[str, dict[str, Any]]) -> LoadedShop:
    if not products:
        raise DataError(f"{found.products} holds no product", fix="give the file that the field's download brings")
    return LoadedShop(products, found.digest(), notes)


def _as_raw(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a processed row in the raw schema."""
    options = row.get("options") or {}
    pricing = row.get("pricing") or []
    return {
        **row,
        "pricing": " - ".join(f"${price}" for price in pricing) if isinstance(pricing, list) else pricing,
        "customization_options": {name: [{"value": value} for value in values] for name, values in options.items()},
    }


def _product(row: Mapping[str, Any], attributes: Any, drawn: Any) -> Product:
    pricing = _pricing(row.get("pricing"))
    low, high = (_cents(pricing[0]), _cents(pricing[-1]))
    bullets = row["small_description"]
    return Product(
        id=clean_text(row["asin"]),
        title=clean_text(row["name"]),
        tag=" to ".join(f"${float(price)}" for price in pricing),
        low=min(low, high),
        high=max(low, high),
        charged=_charged(row["asin"], low, high) if drawn is None else _cents(Decimal(repr(drawn))),
        category=row["category"],
        query=row["query"].lower().strip(),
        path=row["product_category"],
        attributes=DUMMY if attributes is None else tuple(attributes),
        options=_options(row.get("customization_options")),
        description=clean_text(row["full_description"] or ""),
        bullets=tuple(clean_text(item or "") for item in (bullets if isinstance(bullets, list) else [bullets])),
        rating=_rating(row.get("average_rating")),
        reviews=tuple(_reviews(row.get("Reviews"))),
    )


def _pricing(text: Any) -> tuple[Decimal, ...]:
    """Return one price or two, in dollars."""
    parts = [_NOT_PRICE.sub("", part) for part in text.split("$")[1:]] if isinstance(text, str) else []
    prices = [Decimal(part) for part in parts if part]
    return tuple(prices[:2]) or (NO_PRICE,)


def _cents(dollars: Decimal) -> int:
    """Return dollars in whole cents, rounded up: whether a price exceeds a bound of whole cents stays as it is."""
    return int((dollars * 100).to_integral_value(ROUND_CEILING))


def _charged(asin: str, low: int, high: int) -> int:
    """Return the price that is compared with the bound: drawn from the range once, by the product's name."""
    if low == high:
        return low
    return min(low, high) + Stream(_PRICES, asin).below(abs(high - low) + 1)


def _options(form: Any) -> tuple[OptionGroup, ...]:
    groups: dict[str, OptionGroup] = {}
    for name, contents in (form or {}).items():
        if contents is None:
            continue
        values = tuple(clean_text(item["value"]).strip().replace("/", " | ").lower() for item in contents)
        groups[name.lower()] = OptionGroup(
            name=clean_text(name.lower()),
            values=values,
            prices=tuple(_option_price(item.get("price_string")) for item in contents),
            stock=tuple(0 if item.get("is_available") is False else None for item in contents),
        )
    return tuple(groups.values())


def _option_price(text: Any) -> int | None:
    """Return the price of an option, where its text is one price."""
    found = re.fullmatch(r"\$([\d,]+(?:\.\d+)?)", text.strip()) if isinstance(text, str) else None
    return _cents(Decimal(found[1].replace(",", ""))) if found else None


def _rating(value: Any) -> int | None:
    """Return stars in tenths; the files mix numbers and texts."""
    try:
        stars = Decimal(str(value))
    except InvalidOperation:
        return None
    return int(stars * 10) if stars.is_finite() and 0 < stars <= 5 else None


def _reviews(rows: Any) -> Iterator[Review]:
    for row in rows or ():
        score = row.get("score", row.get("stars"))
        yield Review(
            clean_text(str(row.get("title", ""))),
            int(score) if isinstance(score, int | float) and 1 <= score <= 5 else 1,
            clean_text(str(row.get("body", row.get("review", "")))),
        )
