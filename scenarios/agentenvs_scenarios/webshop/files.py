"""Files of the field, read as rows: JSON, JSON lines and Parquet, compressed or not.

A folder is looked through by name: the original's ``items_shuffle*``, ``items_ins_v2*`` and ``items_human_ins*``, or
the Hugging Face data sets exported to ``webshop*`` and ``webshop_instructions*``, whose lists and tables are JSON
within strings. ``prices.json`` and ``goals.json`` beside them freeze what the original draws without a seed. NaN, which
some of these files hold, reads as None.
"""

from __future__ import annotations

import gzip
import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentenvs.core.canon import sha256
from agentenvs.core.errors import DataError, missing_extra

_ENDINGS: Final = (".json", ".json.gz", ".jsonl", ".jsonl.gz", ".parquet")
_FIX: Final = (
    "give a folder with items_shuffle*.json, items_ins_v2*.json and perhaps items_human_ins*.json, or with exports of "
    "the Hugging Face data sets: webshop*.jsonl or .parquet, and webshop_instructions*"
)


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a data folder, by what is in them; None or empty where there is none."""

    products: Path
    attributes: Path | None
    human: Path | None
    prices: Path | None
    goals: tuple[Path, ...]
    """Frozen goals, one file a split."""
    exported: bool
    """Whether the products are in the Hugging Face layout."""

    def every(self) -> list[Path]:
        """Return all of them, in a fixed order."""
        single = (self.products, self.attributes, self.human, self.prices)
        return [path for path in single if path is not None] + list(self.goals)

    def digest(self) -> str:
        """Return the SHA-256 of their contents, one after another."""
        return sha256("".join(sha256(read_bytes(path)) for path in self.every()).encode())

    def stamp(self) -> tuple[tuple[str, int, int], ...]:
        """Return what changes when a file does: names, sizes, times."""
        return tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in self.every())


def find(folder: Path) -> Files:
    """Return the files of a data folder.

    Raises:
        DataError: There is no such folder, or no file of products in it.
    """
    root = folder.expanduser()
    if not root.is_dir():
        raise DataError(f"there is no folder {folder}", fix=_FIX)
    names = sorted(path for path in root.iterdir() if path.name.endswith(_ENDINGS))

    def starting(*heads: str) -> list[Path]:
        return [path for path in names if path.name.startswith(heads)]

    raw = starting("items_shuffle")
    frozen = starting("goals")
    if raw:
        attributes, human = starting("items_ins_v2"), starting("items_human_ins")
        return Files(
            # Several sizes may lie side by side, as the original's own download does: the largest is meant.
            max(raw, key=lambda path: path.stat().st_size),
            max(attributes, key=lambda path: path.stat().st_size, default=None),
            human[0] if human else None,
            next(iter(starting("prices")), None),
            tuple(frozen),
            exported=False,
        )
    goals = starting("webshop_instructions")
    products = [path for path in starting("webshop") if path not in goals]
    if not products:
        raise DataError(f"no products of a web shop are in {folder}", fix=_FIX)
    return Files(products[0], None, None, next(iter(starting("prices")), None), tuple(goals or frozen), exported=True)


def read_bytes(path: Path) -> bytes:
    """Return a file's content, unpacked where it is packed.

    Raises:
        DataError: It cannot be read.
    """
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.name.endswith(".gz") else data
    except (OSError, EOFError) as error:
        raise unusable(path, str(error)) from error


def read_json(path: Path) -> Any:
    """Return the JSON value of a file.

    Raises:
        DataError: It is none.
    """
    try:
        return json.loads(read_bytes(path), parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise unusable(path, f"it is no JSON ({error})") from error


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file of objects.

    Raises:
        DataError: It is not made of objects.
        MissingExtraError: It is a Parquet file, and ``pyarrow`` is not installed.
    """
    if path.name.endswith(".parquet"):
        rows: Any = _parquet(path)
    elif ".jsonl" in path.name:
        rows = _lines(path)
    else:
        rows = read_json(path)
    if isinstance(rows, dict):
        rows = rows.values()
    if rows is None or isinstance(rows, str | int | float):
        raise unusable(path, "it holds no rows")
    for row in rows:
        if not isinstance(row, dict):
            raise unusable(path, f"a row is a {type(row).__name__}, not an object")
        yield row


def unpacked(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the lists and tables that are JSON within strings as what they are."""
    return {key: _unpacked(value) for key, value in row.items()}


def unusable(path: Path, why: str) -> DataError:
    """Word the one message for a file that is of no use."""
    return DataError(f"the file {path} cannot be used", why=why, fix="download it again, or take it out of the folder")


def _unpacked(value: Any) -> Any:
    if not isinstance(value, str) or (value[:1] not in ("[", "{", '"') and value not in ("null", "true", "false")):
        return value
    try:
        return json.loads(value, parse_constant=lambda _: None)
    except ValueError:
        return value


def _lines(path: Path) -> Iterator[Any]:
    for number, line in enumerate(read_bytes(path).split(b"\n"), 1):
        if line.strip():
            try:
                yield json.loads(line, parse_constant=lambda _: None)
            except (ValueError, RecursionError) as error:
                raise unusable(path, f"line {number} is no JSON ({error})") from error


def _parquet(path: Path) -> Any:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise missing_extra("reading a Parquet file", "pyarrow", "webshop-data") from error
    try:
        return parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise unusable(path, str(error)) from error
