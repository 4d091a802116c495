"""What is seen, as a page shows it: words as they are, data as a table where it is one, else as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from agentenvs.core.canon import JSON
from agentenvs.core.observation import Block, DataBlock, Observation, TextBlock

MOST_ROWS = 200
MOST_COLUMNS = 24
LONG = 4_000
"""Characters of a turn that the list of turns shows; the rest is on a page of the turn."""

SHORT = 90
"""Characters of what was seen in a turn that stand in the list of turns."""

Look: TypeAlias = Literal["words", "table", "json"]


class Shown(NamedTuple):
    """One block."""

    look: Look
    speaker: str
    """The tool that answered; empty where that is not one."""
    text: str = ""
    columns: tuple[str, ...] = ()
    """Of a table; empty where its rows are a name and a value each."""
    rows: tuple[tuple[str, ...], ...] = ()
    left_out: int = 0
    """Rows that are not shown."""


def shown(observation: Observation) -> list[Shown]:
    """Return the blocks of an observation."""
    return [_block(block) for block in observation.blocks]


def beginning(blocks: list[Shown]) -> tuple[list[Shown], bool]:
    """Return the beginning of blocks, as much as the list of turns has room for, and whether there is more."""
    kept: list[Shown] = []
    room = LONG
    for block in blocks:
        size = len(block.text) + sum(len(cell) for row in block.rows for cell in row)
        if size > room:
            if block.text:
                kept.append(block._replace(look="words", text=f"{block.text[:room]}…"))
            return kept, True
        kept.append(block)
        room -= size
    return kept, False


def short(text: str) -> str:
    """Return the beginning of a text, in a line."""
    line = " ".join(text[: 4 * SHORT].split())
    return line if len(line) <= SHORT else f"{line[:SHORT].rstrip()}…"


def _block(block: Block) -> Shown:
    if isinstance(block, TextBlock):
        return Shown("words", "", block.text)
    if not isinstance(block, DataBlock):
        return Shown("words", "", f"[image {block.digest}]")
    return _data(block.data, block.tool or "")


def _data(data: JSON, tool: str) -> Shown:
    if isinstance(data, str):
        return Shown("words", tool, data)
    table = next(_tables(data), None)
    if table is not None:
        columns, rows = table
        return Shown("table", tool, "", columns, rows[:MOST_ROWS], max(len(rows) - MOST_ROWS, 0))
    return Shown("json", tool, json.dumps(data, ensure_ascii=False, indent=2, sort_keys=False))


def _tables(data: JSON) -> Iterator[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]]:
    """Yield columns and rows, where a value has them: a list of flat objects, or one flat object."""
    if isinstance(data, list) and data and all(_is_flat(row) for row in data):
        columns = tuple(dict.fromkeys(name for row in data for name in row))
        if len(columns) <= MOST_COLUMNS:
            yield columns, tuple(tuple(_cell(row[name]) if name in row else "" for name in columns) for row in data)
    elif _is_flat(data):
        yield (), tuple((name, _cell(value)) for name, value in data.items())


def _is_flat(value: JSON) -> bool:
    return (
        isinstance(value, Mapping) and bool(value) and not any(isinstance(each, dict | list) for each in value.values())
    )


def _cell(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
