"""Scenarios at hand: real games found in a data folder, and what is kept of them in memory and on disk.

On disk, one small JSON file for each data folder keeps the listing (size, time, hash of each game file), so that the
next process hashes only what has changed; a torn or foreign file is ignored, and a folder that cannot be written to is
no error. In memory, the scenarios and layouts used last are kept, since many episodes play the same ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Hashable
from functools import lru_cache
from pathlib import Path
from typing import Final, Generic, TypeVar

from agentenvs.core.canon import canonical_bytes, sha256
from agentenvs.core.errors import ContractError, DataError
from agentenvs.core.prepared import cache_folder
from agentenvs.envs.household.layout import Layout, Profile
from agentenvs.envs.household.rules import State
from agentenvs_scenarios.household.discover import GameFile, GameSplit, absolute, find_games
from agentenvs_scenarios.household.load import parse_game, read_bytes
from agentenvs_scenarios.household.model import Scenario, TextVersion

DATA_VARIABLE: Final = "ALFWORLD_DATA"
KEPT_SCENARIOS: Final = 512
KEPT_LAYOUTS: Final = 512

_FORMAT: Final = 1
_SHA256: Final = re.compile("[0-9a-f]{64}")

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
        value = values.pop(key, None)
        if value is None:
            value = make()
        values[key] = value
        if len(values) > self._size:
            # Several threads may share this; whoever comes second finds the oldest gone already.
            with contextlib.suppress(StopIteration, RuntimeError):
                values.pop(next(iter(values)), None)
        return value


_scenarios: Recent[Scenario] = Recent(KEPT_SCENARIOS)
_layouts: Recent[Layout] = Recent(KEPT_LAYOUTS)


def data_folder(option: str | None) -> Path | None:
    """Return the data folder a caller asked for, else ``$ALFWORLD_DATA``, else None."""
    folder = option or os.environ.get(DATA_VARIABLE)
    return Path(folder) if folder else None


def list_games(folder: Path) -> dict[str, GameSplit]:
    """Return the splits of a data folder by name; looked up once a process.

    Raises:
        DataError: The folder holds no games, or cannot be read.
    """
    return _list_games(absolute(folder))


@lru_cache(maxsize=16)
def _list_games(folder: Path) -> dict[str, GameSplit]:
    kept = _cache_file(folder)
    known = _read_listing(kept)
    listing = find_games(folder, known)
    if listing.files != known:
        _write_listing(kept, listing.files)
    return {split.name: split for split in listing.splits}


def load_scenario(game: GameFile) -> Scenario:
    """Return the scenario of a listed game file.

    Raises:
        DataError: The file is no game, or has changed since it was listed.
    """
    # The name is part of a scenario, and two files may be equal.
    return _scenarios.get((_name(game), game.sha256), lambda: _load(game))


def layout_of(scenario: Scenario, profile: Profile, text: TextVersion | None, aliases: bool) -> Layout:
    """Return the layout of a scenario under the options of an environment.

    Raises:
        DataError: The goal holds before anything is done; only ``original`` plays, and pays, that.
    """
    key = (scenario.digest, profile, text, aliases)
    return _layouts.get(key, lambda: _make_layout(scenario, profile, text, aliases))


def _make_layout(scenario: Scenario, profile: Profile, text: TextVersion | None, aliases: bool) -> Layout:
    layout = Layout(scenario, profile, text, aliases)
    if layout.compat and State(layout).won:
        raise DataError(
            f"the household {scenario.name!r} is no task",
            why="its goal holds before anything is done, so doing nothing would win it",
            fix="leave it out, or play it with profile=original",
        )
    return layout


def _load(game: GameFile) -> Scenario:
    data = read_bytes(Path(game.path))
    if sha256(data) != game.sha256:
        raise DataError(
            f"the game file {game.path} has changed",
            why="its content is not what it was when the folder was listed",
            fix=f"start again, so that the folder is listed anew; if it stays so, remove {cache_folder()}",
        )
    return parse_game(data, _name(game), game.path)


def _name(game: GameFile) -> str:
    return "/".join(Path(game.path).parts[-3:-1])


def _cache_file(folder: Path) -> Path | None:
    try:
        name = sha256(os.fsencode(folder))[:24]
        return cache_folder() / f"household-games-{name}.json"
    except (OSError, RuntimeError):  # no home folder, or no current one
        return None


def _read_listing(path: Path | None) -> dict[str, GameFile]:
    if path is None:
        return {}
    try:
        form = json.loads(path.read_bytes())
        files = [GameFile(*row) for row in form["files"]] if form["format"] == _FORMAT else []
        wanted = (str, int, int, str, bool)
        if any(tuple(map(type, file)) != wanted or not _SHA256.fullmatch(file.sha256) for file in files):
            return {}
        return {file.path: file for file in files}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _write_listing(path: Path | None, files: dict[str, GameFile]) -> None:
    if path is None:
        return
    form = {"format": _FORMAT, "files": [list(file) for file in files.values()]}
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    with contextlib.suppress(OSError, ContractError):  # a path that is no UTF-8 can stand in no JSON
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(canonical_bytes(form))
        fresh.replace(path)
