"""Which real games a data folder holds: a split for each folder of games, each game once, in the order of their paths.

Nothing of a game is parsed here: a file is hashed, and its end says whether the release calls it solvable. What a
caller has kept of an earlier listing is taken for files of the same size and time, so that a listing of thousands costs
a look at each. Filters as the original's: no movable-receptacle or sliced tasks, none marked unsolvable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from agentenvs.core.canon import clean_text, digest, sha256
from agentenvs.core.errors import DataError
from agentenvs_scenarios.household.load import GAME_FILE, read_bytes, read_document

RELEASE_FOLDER: Final = "json_2.1.1"
RESERVED: Final = ("train", "dev", "test", "sealed", "builtin")
"""Names of splits that mean something else; a folder of that name becomes ``alfworld_<name>``."""

_DEPTH: Final = 4
"""Folders below the root in which games are looked for: split, task, trial, and one to spare."""

_FOREIGN: Final = ("movable", "Sliced")
_END = re.compile(rb'"solvable"\s*:\s*(true|false)\s*\}\s*\Z')


class GameFile(NamedTuple):
    """One game file, looked at from outside."""

    path: str
    size: int
    mtime_ns: int
    sha256: str
    solvable: bool
    """What the release says of it; some it calls unsolvable are not."""


class GameSplit(NamedTuple):
    """The games of one folder."""

    name: str
    games: tuple[GameFile, ...]
    panel: str
    """SHA-256 over names and contents of the games, in order: equal for equal panels, wherever they lie."""


class Listing(NamedTuple):
    """What a data folder holds."""

    splits: tuple[GameSplit, ...]
    files: dict[str, GameFile]
    """Every game file by path, unsolvable ones too, to be handed to the next listing."""


def find_games(root: Path, known: Mapping[str, GameFile] | None = None) -> Listing:
    """List the games of a data folder.

    Args:
        root: The folder ``json_2.1.1``, its parent, or a single split's folder.
        known: Files of an earlier listing, by path.

    Raises:
        DataError: There is no such folder, it cannot be read, it holds no game, a file is torn, or two folders would
            be the same split.
    """
    folder = _data_folder(root)
    known = known or {}
    files: dict[str, GameFile] = {}
    found: dict[str, list[tuple[str, GameFile]]] = {}
    folders: dict[str, str] = {}
    for parts in _walk(folder):
        relative = "/".join(parts)
        if any(word in relative for word in _FOREIGN):
            continue
        game = _look_at(folder.joinpath(*parts, GAME_FILE), known)
        files[game.path] = game
        if game.solvable:
            split, name = (parts[0], "/".join(parts[1:])) if len(parts) > 2 else (folder.name, relative)
            label = _split_name(split)
            if folders.setdefault(label, split) != split:
                raise _useless(root, f"its folders {folders[label]} and {split} would both be the split {label}")
            found.setdefault(label, []).append((name, game))
    if not found:
        raise _useless(root, f"no file {GAME_FILE} of a solvable game is in it")
    return Listing(tuple(_split(name, found[name]) for name in sorted(found)), files)


def _split(name: str, games: list[tuple[str, GameFile]]) -> GameSplit:
    games.sort()
    panel = digest([[relative, game.sha256] for relative, game in games])
    return GameSplit(name, tuple(game for _, game in games), panel)


def _split_name(folder: str) -> str:
    name = re.sub(r"[^\w.-]", "_", folder)
    return f"alfworld_{name}" if name in RESERVED else name


def absolute(root: Path) -> Path:
    """Return a data folder as an absolute path, ``~`` expanded.

    Raises:
        DataError: It is in the home of somebody who has none.
    """
    try:
        return root.expanduser().absolute()
    except (OSError, RuntimeError) as error:  # no such user, or no current folder
        raise _useless(root, "there is no such folder") from error


def _data_folder(root: Path) -> Path:
    """Return the folder whose children are splits (or tasks), as an absolute path."""
    folder = absolute(root)
    try:
        if not folder.is_dir():
            raise _useless(root, "there is no such folder")
        releases = sorted(child for child in folder.glob("json_*") if child.is_dir())
    except OSError as error:
        raise _useless(root, f"it cannot be read ({error.strerror})") from error
    if (folder / RELEASE_FOLDER) in releases:
        return folder / RELEASE_FOLDER
    return releases[-1] if releases else folder


def _walk(folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the folders that hold a game, as parts relative to ``folder``.

    Links are followed, but not to a folder they lie in, nor where they lead nowhere; depth is bounded.
    """
    todo: list[tuple[str, ...]] = [()]
    while todo:
        parts = todo.pop()
        try:
            with os.scandir(folder.joinpath(*parts)) as entries:
                children = sorted((entry.name, _is_folder(entry)) for entry in entries if _is_text(entry.name))
        except OSError as error:
            raise _useless(folder.joinpath(*parts), f"it cannot be read ({error})") from error
        if (GAME_FILE, False) in children:
            yield parts
        if len(parts) < _DEPTH:
            todo += [(*parts, name) for name, is_folder in children if is_folder]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder, or a link to one that it does not lie in."""
    try:
        if not entry.is_dir():
            return False
        lies_in = Path(os.path.realpath(os.path.dirname(entry.path))) if entry.is_symlink() else None
        return lies_in is None or not lies_in.is_relative_to(os.path.realpath(entry.path))
    except OSError:  # a link to itself
        return False


def _is_text(name: str) -> bool:
    """Whether a file name has a UTF-8 form; one without could stand in no listing."""
    return clean_text(name) == name


def _look_at(path: Path, known: Mapping[str, GameFile]) -> GameFile:
    try:
        status = path.stat()
    except OSError as error:
        raise _useless(path, f"it cannot be read ({error})") from error
    kept = known.get(str(path))
    if kept is not None and (kept.size, kept.mtime_ns) == (status.st_size, status.st_mtime_ns):
        return kept
    data = read_bytes(path)
    return GameFile(str(path), status.st_size, status.st_mtime_ns, sha256(data), _is_solvable(data, str(path)))


def _is_solvable(data: bytes, source: str) -> bool:
    """Read the mark at the end of the file, or the whole file where it is not there; no mark is no."""
    match = _END.search(data, max(len(data) - 200, 0))
    return match[1] == b"true" if match else read_document(data, source).get("solvable") is True


def _useless(folder: Path, why: str) -> DataError:
    return DataError(
        f"no games can be read from {folder}",
        why=why,
        fix=f"give the folder {RELEASE_FOLDER} of an ALFWorld data release, its parent, or one split's folder",
    )
