"""Shops at hand: the generated and the loaded ones that were used last, with their search, shared by all episodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import orjson

from agentenvs.core import prepared
from agentenvs.core.canon import JSON
from agentenvs.core.errors import DataError
from agentenvs.core.prepared import Item, Progress
from agentenvs.core.search import ENGLISH, Index, build
from agentenvs.envs.webshop.rules import MOST_RESULTS, Profile
from agentenvs.envs.webshop.spec import SPEC
from agentenvs_scenarios.webshop.families import SIZE
from agentenvs_scenarios.webshop.files import find
from agentenvs_scenarios.webshop.generated import LARGE, GeneratedShop
from agentenvs_scenarios.webshop.goals import GoalSplit, goal_splits, mended
from agentenvs_scenarios.webshop.load import LoadedShop, load_shop
from agentenvs_scenarios.webshop.model import Scenario, Shop
from agentenvs_scenarios.webshop.nouns import WORDS, Table, tag
from agentenvs_scenarios.webshop.pictures import spelt

DATA_VARIABLE: Final = "WEBSHOP_DATA"

K1: Final = 0.9
B: Final = 0.4
"""BM25 as the original's engine has it."""

INDEX: Final = "search.bm25"
INDEX_FORMAT: Final = 6
COLUMNS: Final = "products.npy"
TABLE: Final = "nouns.json"
TAGGER: Final = "spacy-3.8/en_core_web_sm"

_MOST_SHOPS: Final = 4
_MOST_QUERIES: Final = 4_096

T = TypeVar("T")


class Recent(Generic[T]):
    """The values made last, by key.

    Args:
        size: How many are kept.
    """

    __slots__ = ("_size", "_values")

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: dict[Hashable, T] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key; made now, where it is not kept."""
        values = self._values
        value = values.get(key)
        if value is None:
            value = values[key] = make()
            if len(values) > self._size:
                values.pop(next(iter(values)), None)
        return value


class Search:
    """The search of a shop: the products a query finds, best first, at most :data:`MOST_RESULTS`.

    Args:
        index: The BM25 index of the shop's documents.
        order: The product of each document, by index.
    """

    def __init__(self, index: Index, order: Sequence[int]) -> None:
        self.index = index
        self._order = order
        self._found: Recent[tuple[int, ...]] = Recent(_MOST_QUERIES)

    def __call__(self, query: str) -> tuple[int, ...]:
        """Return the indices of the products found."""
        return self._found.get(query, lambda: self._search(query))

    def _search(self, query: str) -> tuple[int, ...]:
        return tuple(self._order[hit.number] for hit in self.index.search(spelt(query), MOST_RESULTS))


_generated: Recent[GeneratedShop] = Recent(_MOST_SHOPS)
_searches: Recent[Search] = Recent(_MOST_SHOPS)
_tables: Recent[Table] = Recent(_MOST_SHOPS)


def data_folder(option: str | None) -> Path | None:
    """Return the data folder a caller asked for, else ``$WEBSHOP_DATA``, else None."""
    folder = option or os.environ.get(DATA_VARIABLE)
    return Path(folder) if folder else None


@lru_cache(maxsize=_MOST_SHOPS)
def bare_shop(seed: int, size: int) -> GeneratedShop:
    """Return a generated shop without columns, which takes no file.

    Raises:
        OptionError: It is too large.
    """
    return GeneratedShop(seed, size)


def generated_shop(seed: int, size: int, given: str | None = None) -> GeneratedShop:
    """Return a generated shop; a large one with its columns, which are made first where they are not prepared.

    Raises:
        DataError: They are not in the folder that was given.
    """
    return _generated.get((seed, size), lambda: _with_columns(GeneratedShop(seed, size), given))


def _with_columns(shop: GeneratedShop, given: str | None) -> GeneratedShop:
    if len(shop) >= LARGE:
        from agentenvs_scenarios.webshop.columns import Columns

        shop.columns = Columns.open(prepared.folder(SPEC, search_item(shop), given) / COLUMNS)
    return shop


def loaded_shop(folder: Path, rows: int | None) -> tuple[LoadedShop, dict[str, GoalSplit]]:
    """Return the shop of a data folder and its goals by split; read once while the files stay as they are.

    Raises:
        DataError: The folder is of no use.
    """
    return _loaded(folder, rows, find(folder).stamp())


@lru_cache(maxsize=_MOST_SHOPS)
def _loaded(folder: Path, rows: int | None, stamp: Hashable) -> tuple[LoadedShop, dict[str, GoalSplit]]:
    shop = load_shop(folder, rows)
    return shop, goal_splits(folder, shop)


def loaded_scenario(shop: LoadedShop, split: GoalSplit, index: int, profile: Profile, given: str | None) -> Scenario:
    """Return a scenario of loaded data.

    Raises:
        DataError: The profile ``original`` has no table of title nouns.
    """
    goal = split.goals[index]
    name = f"{split.name}/{index}"
    if profile == "native":
        return Scenario(name, shop, mended(goal, shop), "exact")
    return Scenario(name, shop, goal, "formula", table_of(shop, given) if profile == "original" else WORDS)


def search_of(shop: Shop, given: str | None = None) -> Search:
    """Return the search of a shop, its index made first where it is not prepared.

    Raises:
        DataError: It is not in the folder that was given.
    """
    return _searches.get(shop.digest, lambda: Search(_opened(shop, given), shop.order))


def _opened(shop: Shop, given: str | None) -> Index:
    return Index.open(prepared.folder(SPEC, search_item(shop), given) / INDEX)


def search_item(shop: Shop) -> Item:
    """Return the index of a shop as what is made once."""

    def fill(folder: Path, progress: Progress) -> None:
        texts = shop.documents()
        if isinstance(shop, GeneratedShop) and len(shop) >= LARGE:
            texts = _noting(shop, texts, folder / COLUMNS)
        documents = ((str(number), text) for number, text in enumerate(texts))
        places = [0] * len(shop)
        for place, at in enumerate(shop.order):
            places[at] = place
        index = build(
            documents,
            tokenizer=ENGLISH,
            k1=K1,
            b=B,
            lengths="lucene",
            places=places,
            total=len(shop),
            progress=progress,
        )
        index.save(folder / INDEX)

    return Item("search", {"shop": shop.digest, "index": INDEX_FORMAT}, fill)


def _noting(shop: GeneratedShop, texts: Iterator[str], path: Path) -> Iterator[str]:
    """Yield a shop's texts, and write its columns as they pass by: what is so of a product is known just then."""
    from agentenvs_scenarios.webshop.columns import Columns

    columns = Columns.empty(shop.families)
    for number, text in enumerate(texts):
        if number % SIZE == 0:
            columns.put(number // SIZE, shop.present(number // SIZE))
        yield text
    columns.save(path)


def table_of(shop: LoadedShop, given: str | None = None) -> Table:
    """Return the table of title nouns of a loaded shop, as it was prepared; none is made while serving.

    Raises:
        DataError: It was not made.
    """
    return _tables.get(shop.digest, lambda: _read_table(shop, given))


def _read_table(shop: LoadedShop, given: str | None) -> Table:
    folder = prepared.folder(SPEC, Item("nouns", _table_key(shop), _refuse), given)
    return Table.from_json(orjson.loads((folder / TABLE).read_bytes()))


def table_item(shop: LoadedShop) -> Item:
    """Return the table of title nouns as what is made once, by a tagger."""

    def fill(folder: Path, progress: Progress) -> None:
        table = tag((shop.product(at).title for at in range(len(shop))), len(shop), progress)
        (folder / TABLE).write_bytes(orjson.dumps(table.to_json()))

    return Item("nouns", _table_key(shop), fill)


def _table_key(shop: LoadedShop) -> dict[str, JSON]:
    return {"shop": shop.digest, "tagger": TAGGER}


def _refuse(folder: Path, progress: Progress) -> None:
    raise DataError(
        "the profile original needs a table of the nouns in titles",
        why="the original's reward compares nouns, and a tagger finds them, which does not belong into serving",
        fix="make it once: pip install 'agentenvs[webshop-original]', then agentenvs prepare webshop --data DIR "
        "-o profile=original",
    )


def items(options: Mapping[str, Any]) -> Iterator[Item]:
    """Yield what an environment with some options needs."""
    folder = data_folder(options["data"])
    if folder is None:
        yield search_item(bare_shop(options["shop"], options["products"]))
        return
    shop, _ = loaded_shop(folder, options["rows"])
    yield search_item(shop)
    if options["profile"] == "original":
        yield table_item(shop)
