"""Writes the rows of runs as CSV, or as Parquet for those who load millions."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentenvs.core.canon import JSON
from agentenvs.core.errors import missing_extra
from agentenvs.harness.runs import schema
from agentenvs.harness.runs.asking import RUN_COLUMNS
from agentenvs.harness.runs.scanning import COLUMNS

Batches = Iterable[list[dict[str, JSON]]]

NAMES = (*(f"run_{name}" for name in RUN_COLUMNS), *COLUMNS)
"""The columns, in order."""


def to_csv(batches: Batches, path: Path) -> int:
    """Write a CSV file (RFC 4180, UTF-8, a line of names first) and return the number of rows.

    Text stands as it is: a program that takes a cell beginning with ``=`` for a formula must be told not to.

    Raises:
        OSError: The file cannot be written.
    """

    def write(part: Path) -> int:
        count = 0
        with part.open("w", encoding="utf-8", errors="replace", newline="") as file:
            writer = csv.DictWriter(file, NAMES, lineterminator="\r\n")
            writer.writeheader()
            for batch in batches:
                writer.writerows(batch)
                count += len(batch)
        return count

    return _whole(path, write)


def to_parquet(batches: Batches, path: Path) -> int:
    """Write a Parquet file and return the number of rows.

    Raises:
        MissingExtraError: ``pyarrow`` is not installed.
        OSError: The file cannot be written.
    """
    try:
        pyarrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    except ImportError as error:
        raise missing_extra("a Parquet file", "pyarrow", "parquet") from error
    made = pyarrow.schema([pyarrow.field(name, _type(pyarrow, name), nullable=True) for name in NAMES])

    def write(part: Path) -> int:
        count = 0
        with parquet.ParquetWriter(part, made, compression="zstd") as writer:
            for batch in batches:
                writer.write_table(pyarrow.Table.from_pylist(batch, schema=made))
                count += len(batch)
        return count

    return _whole(path, write)


def _type(pyarrow: Any, name: str) -> Any:
    table = schema.runs if name.startswith("run_") else schema.episodes
    kind = table.c[name.removeprefix("run_")].type.python_type
    return {str: pyarrow.string(), int: pyarrow.int64(), bool: pyarrow.bool_(), float: pyarrow.float64()}[kind]


def _whole(path: Path, write: Callable[[Path], int]) -> int:
    """Put a file in its place when it is whole."""
    part = path.with_name(f".{path.name}.part")
    try:
        count = write(part)
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return count
