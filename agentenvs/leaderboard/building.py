"""A store as files: the same pages, with links from one to the other, that need no server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from agentenvs.core.errors import ConfigError, DataError
from agentenvs.leaderboard import asking, pages
from agentenvs.leaderboard.pages import FileLinks
from agentenvs.leaderboard.store import Store


def build(store: Store, out: Path) -> int:
    """Write all pages of a store into a folder and return how many files these are.

    Raises:
        ConfigError: The folder is not empty.
        DataError: It cannot be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is not empty", why="a build overwrites nothing", fix="give another --out")
    number = 0
    try:
        for name, text in _files(store):
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            number += 1
    except OSError as error:
        raise DataError(f"the build cannot be written to {out}", why=str(error), fix="give another --out") from error
    return number


def _files(store: Store) -> Iterator[tuple[str, str]]:
    found = asking.listed(store)
    yield "index.html", pages.home(FileLinks(), found)
    yield "tiers.html", pages.tiers(FileLinks("tiers.html"))
    yield "boards.json", _json([shown.to_json() for shown in found])
    for shown in found:
        yield from _board(store, shown)


def _board(store: Store, shown: asking.Shown) -> Iterator[tuple[str, str]]:
    number, last, every = 1, 1, []
    while number <= last:
        rows, last = asking.page(store, shown.id, number)
        name = FileLinks().board(shown.id, number)
        yield name, pages.board(FileLinks(name), shown, rows, number, last)
        every += rows
        number += 1
    for row in every:
        name = FileLinks().entry(shown.id, row["id"])
        yield name, pages.entry(FileLinks(name), shown, asking.one_entry(store, shown.id, row["id"]))
    name = FileLinks().refused(shown.id)
    yield name, pages.refused(FileLinks(name), shown, asking.refused(store, shown.id))
    yield FileLinks().data(shown.id), _json({"board": shown.to_json(), "entries": every})


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
