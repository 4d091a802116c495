"""An index of one run's table of episodes: a small SQLite file in this user's cache, never in the run folder.

It grows with the table: each look reads what was appended since the last one, some thousands of lines at a time, so
that a run of a hundred thousand episodes is open at once and searchable a moment later, and one that is being played
is followed. A table that changed otherwise is read anew. The file is a cache: a damaged one is thrown away, and where
none can be written it lives in memory.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from agentenvs.core.prepared import cache_folder
from agentenvs.harness.runs.scanning import COLUMNS, TABLE, Damage, rows
from agentenvs.view import files, sidecars

VERSION = 2
_CHUNK = 1_000_000
"""Bytes of the table between two looks at whether somebody waits."""
_TAIL = 512
_KEPT_FILES = 200
_TEXTS_AT_ONCE = 400

_TYPES = {"success": "INTEGER", "reward": "REAL", "episode_return": "REAL"}
_WORDS = (
    "split", "scenario", "scenario_digest", "record", "kind", "difficulty", "ending", "stopped", "fault", "error",
    "metrics",
)  # fmt: skip


def _column(name: str) -> str:
    kind = "TEXT" if name in _WORDS else _TYPES.get(name, "INTEGER")
    return f'"{name}" {kind}{" PRIMARY KEY" if name == "number" else ""}'


SCHEMA = f"""
CREATE TABLE episodes ({", ".join(map(_column, COLUMNS))});
CREATE TABLE texts (number INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE damage (file TEXT, line INTEGER, why TEXT);
CREATE TABLE facts (name TEXT PRIMARY KEY, value);
"""

_INSERT = f"INSERT INTO episodes VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608


class Index:
    """The index of one run; any number of threads may use it.

    Args:
        folder: The run.
        place: Its file; None is this user's cache.
    """

    def __init__(self, folder: Path, place: Path | None = None) -> None:
        self.folder = folder
        self._place = place
        self._lock = threading.RLock()
        self._memo: dict[Any, Any] = {}
        self._thread: threading.Thread | None = None
        self._texts: threading.Thread | None = None
        self._in_memory = False
        """Whether the cache took no more."""
        self._opened: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._seen: tuple[int, set[int]] = (-1, set())
        """Where the table had been read to, and the numbers of its episodes; kept while more follows at once."""
        self._memory = f"file:agentenvs-view-{id(self)}?mode=memory&cache=shared"
        self._reading = threading.RLock()

    # ---- bringing it up to date ------------------------------------------------------------------------------------

    def follow(self, wait: float) -> bool:
        """Bring it up to date in the background, and wait so many seconds for that.

        Returns:
            Whether everything has been read.
        """
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                if self.fresh:
                    return True
                self._thread = threading.Thread(target=self._catch_up, name="agentenvs-view-index", daemon=True)
                self._thread.start()
            thread = self._thread
        thread.join(wait)
        return not thread.is_alive()

    def update(self) -> None:
        """Bring it up to date now."""
        self._catch_up()

    @property
    def fresh(self) -> bool:
        """Whether the table is as it was when it was last read to its end."""
        return bool(self._told("stamp") == _spelled(files.stamp(self.folder / TABLE)))

    @property
    def revision(self) -> tuple[Any, ...]:
        """What changes whenever more, or something else, of the table was read."""
        return tuple(self._told(name) for name in ("offset", "tail", "inode"))

    @property
    def progress(self) -> float:
        """Share of the table that has been read."""
        size = (files.stamp(self.folder / TABLE) or (0, 0, 0))[1]
        return min(self._told("offset") or 0, size) / size if size else 1.0

    def _catch_up(self) -> None:
        while self._safely(self._chunk):
            time.sleep(0.001)  # whoever waits for the lock goes first
        self._seen = (-1, set())

    def _safely(self, write: Callable[[], Any]) -> Any:
        """Do what writes; where the cache takes no more, once again in memory, from the start of the table."""
        try:
            return write()
        except sqlite3.Error:
            if self._in_memory:
                raise
        with self._lock:
            self.close()
            self._in_memory, self._seen = True, (-1, set())
            self._memo.clear()
        return write()

    def _chunk(self) -> bool:
        """Read some more of the table; returns whether there is more."""
        with self._lock, self._writing() as base:
            stamp = files.stamp(self.folder / TABLE)
            if stamp is None:
                if base.execute("SELECT 1 FROM episodes LIMIT 1").fetchone():
                    self._forget(base)
                self._note(base, offset=0, stamp=_spelled(None))
                return False
            try:
                with (self.folder / TABLE).open("rb") as file:
                    offset = self._continued(base, file, stamp)
                    file.seek(offset)
                    data = file.read(_CHUNK)
            except OSError as error:
                self._forget(base)
                base.execute("INSERT INTO damage VALUES (?, 0, ?)", (TABLE, f"it cannot be read: {error.strerror}"))
                self._note(base, offset=0, stamp=_spelled(stamp))
                return False
            whole = data.rfind(b"\n") + 1
            if not whole and len(data) == _CHUNK:  # a line of megabytes is none
                whole = len(data)
            if whole:
                self._add(base, data[:whole], offset)
            more = offset + len(data) < stamp[1]
            self._note(base, offset=offset + whole, torn=len(data) - whole if not more else 0)
            if not more:
                self._note(base, stamp=_spelled(stamp))
            return more

    def _continued(self, base: sqlite3.Connection, file: Any, stamp: tuple[int, int, int]) -> int:
        """Return where to go on reading: at the start, where the table is another one than before."""
        offset, tail = self._fact("offset") or 0, self._fact("tail")
        if not offset:
            base.execute("DELETE FROM damage")  # of a table that could not be read
            return 0
        same = stamp[1] >= offset and self._fact("inode") == stamp[0]
        if same and stamp[1] == offset and self._fact("stamp") not in (None, _spelled(stamp)):
            same = False  # not grown, and written to all the same
        if same:
            file.seek(max(offset - _TAIL, 0))
            same = hashlib.sha256(file.read(min(_TAIL, offset))).hexdigest() == tail
        if not same:
            self._forget(base)
            return 0
        return offset

    def _add(self, base: sqlite3.Connection, data: bytes, offset: int) -> None:
        first = (self._fact("lines") or 0) + 1
        known = self._seen
        seen = known[1] if known[0] == offset else {number for (number,) in base.execute("SELECT number FROM episodes")}
        self._seen = (-1, set())  # until it is written, whatever comes
        damage: list[Damage] = []
        base.executemany(_INSERT, rows(data, first, seen, damage))
        base.executemany("INSERT INTO damage VALUES (?, ?, ?)", damage[:1000])
        self._seen = (offset + len(data), seen)
        inode = (files.stamp(self.folder / TABLE) or (0, 0, 0))[0]
        self._note(base, lines=first - 1 + data.count(b"\n"), inode=inode)
        before = b""
        if len(data) < _TAIL and offset:
            with (self.folder / TABLE).open("rb") as file:
                file.seek(max(offset + len(data) - _TAIL, 0))
                before = file.read(min(_TAIL, offset + len(data)) - len(data))
        tail = (before + data)[-min(_TAIL, offset + len(data)) :]
        self._note(base, tail=hashlib.sha256(tail).hexdigest())

    @staticmethod
    def _forget(base: sqlite3.Connection) -> None:
        for table in ("episodes", "texts", "damage", "facts"):
            base.execute(f"DELETE FROM {table}")  # noqa: S608 - of ours

    # ---- the words of tasks ----------------------------------------------------------------------------------------

    def want_texts(self) -> None:
        """Read the task of every episode out of its sidecar, in the background."""
        with self._lock:
            if self._texts is not None and self._texts.is_alive():
                return
            if self.texts_known() >= self.count():
                return
            self._texts = threading.Thread(target=self.read_texts, name="agentenvs-view-texts", daemon=True)
            self._texts.start()

    def texts_known(self) -> int:
        """Return of how many episodes the task can be searched."""
        return int(self.ask("SELECT count(*) FROM texts")[0][0])

    def read_texts(self) -> None:
        """Read the tasks that are not known yet."""
        last = -1
        while missing := self.ask(
            "SELECT e.number FROM episodes e LEFT JOIN texts t ON t.number = e.number "
            "WHERE t.number IS NULL AND e.number > ? ORDER BY e.number LIMIT ?",
            last,
            _TEXTS_AT_ONCE,
        ):
            last = missing[-1][0]
            self._safely(partial(self._keep_texts, [number for (number,) in missing]))
            time.sleep(0.002)

    def _keep_texts(self, numbers: Sequence[int]) -> None:
        found = [(number, sidecars.task(self.folder, number)) for number in numbers]
        with self._lock, self._writing() as base:
            base.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", found)

    # ---- asking ----------------------------------------------------------------------------------------------------

    def ask(self, asked: str, *given: Any) -> list[Any]:
        """Return the rows of a query; each can be read by name."""
        with self._read() as beside:
            return beside.execute(asked, given).fetchall()

    def remembered(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return a value that depends on nothing but what has been read."""
        with self._read():
            generation = self.ask("PRAGMA data_version")[0][0]  # changes with what any thread or process writes
            kept = self._memo.get(key)
            if kept is not None and kept[0] == generation:
                return kept[1]
            value = make()
            if len(self._memo) > 200:
                self._memo.clear()
            self._memo[key] = generation, value
            return value

    def count(self) -> int:
        """Return the number of episodes."""
        return int(self.ask("SELECT count(*) FROM episodes")[0][0])

    def damage(self) -> list[Damage]:
        """Return what could not be read; a last line that is only begun is not damage while a run is played."""
        return [Damage(*row) for row in self.ask("SELECT file, line, why FROM damage ORDER BY line LIMIT 20")]

    @property
    def torn(self) -> int:
        """Bytes behind the last whole line."""
        return int(self._told("torn") or 0)

    def close(self) -> None:
        """Close its file."""
        with self._lock, self._reading:
            for one in (self._reader, self._opened):
                if one is not None:
                    one.close()
            self._opened = self._reader = None

    # ---- the file --------------------------------------------------------------------------------------------------

    @property
    def _base(self) -> sqlite3.Connection:
        if self._opened is None:
            place = None if self._in_memory else self._place or place_of(self.folder)
            self._opened = _opened(place, self._memory)
        return self._opened

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        """Hand out the connection that reads: of a file, one that never waits for who writes.

        Who needs both locks takes the one of writing first.
        """
        while True:
            if self._reader is None:
                with self._lock, self._reading:
                    self._reader = self._beside()
            with self._reading:
                if self._reader is not None:
                    yield self._reader
                    return

    def _beside(self) -> sqlite3.Connection:
        if self._reader is not None:  # another thread was faster
            return self._reader
        name = self._base.execute("PRAGMA database_list").fetchone()["file"]
        made = _connected(name or self._memory)
        made.execute("PRAGMA read_uncommitted=1")  # in memory, where there is no other way beside
        return made

    def _told(self, name: str) -> Any:
        found = self.ask("SELECT value FROM facts WHERE name = ?", name)
        return found[0][0] if found else None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        base = self._base
        base.execute("BEGIN IMMEDIATE")
        try:
            yield base
        except BaseException:
            base.execute("ROLLBACK")
            raise
        base.execute("COMMIT")

    def _fact(self, name: str) -> Any:
        found = self._base.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if found is None else found[0]

    @staticmethod
    def _note(base: sqlite3.Connection, **facts: Any) -> None:
        for name, value in facts.items():
            base.execute(
                "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value "
                "WHERE value IS NOT excluded.value",
                (name, value),
            )


def _spelled(stamp: tuple[int, int, int] | None) -> str:
    return "-".join(map(str, stamp or ("none",)))


def place_of(folder: Path) -> Path | None:
    """Return where the index of a run lies; None where this user has no cache."""
    try:
        cache = cache_folder() / "view"
    except RuntimeError:
        return None
    name = hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:32]
    return cache / f"{name}.v{VERSION}.db"


def _opened(place: Path | None, memory: str) -> sqlite3.Connection:
    if place is not None:
        for _ in range(2):
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                _make_room(place)
                return _prepared(str(place))
            except (OSError, sqlite3.Error):
                for end in ("", "-wal", "-shm"):
                    with suppress(OSError):
                        place.with_name(place.name + end).unlink(missing_ok=True)
    return _prepared(memory)


def _connected(name: str) -> sqlite3.Connection:
    uri = name.startswith("file:")
    base = sqlite3.connect(name, timeout=10, isolation_level=None, check_same_thread=False, uri=uri)
    base.row_factory = sqlite3.Row
    return base


def _prepared(name: str) -> sqlite3.Connection:
    base = _connected(name)
    try:
        for pragma in ("journal_mode=WAL", "synchronous=OFF", "cache_size=-65536", "temp_store=MEMORY"):
            base.execute(f"PRAGMA {pragma}")
        base.execute("BEGIN IMMEDIATE")
        try:
            if not base.execute("SELECT 1 FROM sqlite_master WHERE name = 'facts'").fetchone():
                for statement in SCHEMA.split(";"):
                    base.execute(statement)
        finally:
            base.execute("COMMIT")
        base.execute("SELECT value FROM facts WHERE name = 'offset'").fetchone()
    except BaseException:
        base.close()
        raise
    return base


def _make_room(place: Path) -> None:
    """Throw away the oldest indexes where there are very many: they are made again when they are wanted."""
    found: Sequence[Path] = sorted(place.parent.glob("*.db"), key=lambda path: path.stat().st_mtime)
    for old in found[: max(len(found) - _KEPT_FILES, 0)]:
        if old != place:
            for end in ("", "-wal", "-shm"):
                old.with_name(old.name + end).unlink(missing_ok=True)
