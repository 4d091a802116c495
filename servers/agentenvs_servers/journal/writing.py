"""The one writer of a worker: takes what its sessions do, and commits it in groups.

Requests hand over their turns and wait; the writer takes all that came meanwhile into one transaction. So a commit
costs once what a step would cost alone, and the event loop never waits for a disk. A turn is inserted by one statement
that finds its session open and playing its episode, or not at all: another worker may have been asked meanwhile.

Where a transaction fails, each of its requests is told; what the journal says then is what is so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection

from agentenvs_servers.journal.opening import Opened
from agentenvs_servers.journal.stats import Stats

T = TypeVar("T")

MOST_IN_GROUP = 512

log = logging.getLogger("agentenvs.journal")


class JournalDown(Exception):
    """The journal did not take it: the disk is full, the database is away. Nothing, or all, of it was written."""


class TurnRow(NamedTuple):
    """A turn as it is inserted."""

    episode: str
    turn: int
    action: bytes
    digest: bytes
    effects: bytes | None
    failed: str | None
    worker: int


class _Turn(NamedTuple):
    row: TurnRow
    strict: bool
    future: asyncio.Future[bool]
    then: Callable[[bool], None] | None


class _Work(Generic[T]):
    """Anything else to be done in a transaction, apart from what else is in it."""

    __slots__ = ("do", "future", "strict")

    def __init__(self, do: Callable[[Connection], T], strict: bool, future: asyncio.Future[T]) -> None:
        self.do = do
        self.strict = strict
        self.future = future


_SQLITE = (
    "INSERT INTO turns (episode, turn, action, digest, effects, failed, worker) "
    "SELECT no, ?2, ?3, ?4, ?5, ?6, ?7 FROM playing WHERE episode = ?1 ON CONFLICT DO NOTHING"
)

# The lock keeps a session's close, reset or expiry waiting until this turn is committed, and the other way round.
_POSTGRESQL = (
    "WITH asked AS (SELECT * FROM unnest(%(episode)s::text[], %(turn)s::int[], %(action)s::bytea[], "
    "%(digest)s::bytea[], %(effects)s::bytea[], %(failed)s::text[], %(worker)s::bigint[]) "
    "AS asked (episode, turn, action, digest, effects, failed, worker)), "
    "held AS (SELECT episode, no FROM playing WHERE episode = ANY(%(episode)s::text[]) ORDER BY episode FOR SHARE) "
    "INSERT INTO turns (episode, turn, action, digest, effects, failed, worker) "
    "SELECT held.no, a.turn, a.action, a.digest, a.effects, a.failed, a.worker FROM asked a "
    "JOIN held ON held.episode = a.episode ORDER BY held.no, a.turn ON CONFLICT DO NOTHING"
)

_OURS = sa.text(
    "SELECT worker FROM turns JOIN playing ON playing.no = turns.episode "
    "WHERE playing.episode = :episode AND turns.turn = :turn"
)


_Answers: TypeAlias = list[tuple[_Turn | _Work[Any], Any]]


_OURS_SQLITE = (
    "SELECT worker FROM turns JOIN playing ON playing.no = turns.episode WHERE playing.episode = ? AND turn = ?"
)


class Writer:
    """Commits in groups, in a thread of its own.

    Args:
        opened: The journal.
        loop: Whose requests it answers.
        stats: Where it counts.
    """

    def __init__(self, opened: Opened, loop: asyncio.AbstractEventLoop, stats: Stats | None = None) -> None:
        self._opened = opened
        self._loop = loop
        self._queue: queue.SimpleQueue[_Turn | _Work[Any] | None] = queue.SimpleQueue()
        self._connection: Connection | None = None
        self._full_sync = False
        self.stats = stats or Stats()
        self.refused = 0
        """Requests that it did not take since it last took one."""
        self._thread = threading.Thread(target=self._work, name="agentenvs-journal", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many requests wait, about."""
        return self._queue.qsize()

    def turn(self, row: TurnRow, *, strict: bool, then: Callable[[bool], None] | None = None) -> asyncio.Future[bool]:
        """Insert a turn; the result says whether it is in: False where its session is no longer at this turn.

        Args:
            row: The turn.
            strict: Whether it must be on disk.
            then: Told whether it is in, before whoever waits.

        Raises:
            JournalDown: Through the future.
        """
        future: asyncio.Future[bool] = self._loop.create_future()
        self._queue.put(_Turn(row, strict, future, then))
        return future

    def run(self, do: Callable[[Connection], T], *, strict: bool = False) -> asyncio.Future[T]:
        """Do something in a transaction; what it raises undoes it alone.

        Raises:
            JournalDown: Through the future.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Work(do, strict, future))
        return future

    def close(self) -> None:
        """Commit what is waiting, and stop."""
        self._queue.put(None)
        self._thread.join()
        self._forget_connection()

    # ---- in the thread ---------------------------------------------------------------------------------------------

    def _work(self) -> None:
        going = True
        while going:
            group, going = self._group()
            if group:
                answers = self._commit(group)
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    self._loop.call_soon_threadsafe(_deliver, answers)

    def _group(self) -> tuple[list[_Turn | _Work[Any]], bool]:
        first = self._queue.get()
        group: list[_Turn | _Work[Any]] = []
        while first is not None:
            group.append(first)
            if len(group) >= MOST_IN_GROUP:
                return group, True
            try:
                first = self._queue.get_nowait()
            except queue.Empty:
                return group, True
        return group, False

    def _commit(self, group: Sequence[_Turn | _Work[Any]]) -> _Answers:
        began = perf_counter()
        try:
            connection = self._connected()
            self._sync(connection, any(item.strict for item in group))
            turns = [item for item in group if isinstance(item, _Turn)]
            if self._opened.is_sqlite and len(turns) == len(group):
                answers: _Answers = list(zip(turns, self._insert_alone(connection, turns), strict=True))
            else:
                with connection.begin():
                    answers = self._write(connection, group, turns)
            self.stats.sizes.observe(len(group))
            self.stats.seconds.observe(perf_counter() - began)
            self._back()
            return answers
        except (sa.exc.SQLAlchemyError, OSError) as error:
            self.stats.failures += 1
            self._away(error, len(group))
            self._forget_connection()
            down = JournalDown(type(error).__name__)
            return [(item, down) for item in group]

    def _away(self, error: Exception, refused: int) -> None:
        """Say once that the journal is away, and count what it did not take."""
        if not self.refused:
            log.error("the journal does not take what is to be written: %s", _words(error))
        self.refused += refused

    def _back(self) -> None:
        if self.refused:
            log.warning("the journal is back; %d requests were refused meanwhile", self.refused)
            self.refused = 0

    def _write(self, connection: Connection, group: Sequence[_Turn | _Work[Any]], turns: Sequence[_Turn]) -> _Answers:
        answers: _Answers = []
        if turns:
            answers += zip(turns, self._insert(connection, turns), strict=True)
        for item in group:
            if isinstance(item, _Work):
                answers.append((item, _apart(connection, item.do)))
        return answers

    def _insert_alone(self, connection: Connection, turns: Sequence[_Turn]) -> list[bool]:
        """Insert turns in a transaction of their own, by the driver itself: by far the commonest, and twice as fast.

        Raises:
            OSError: The journal did not take them.
        """
        rows = [turn.row for turn in turns]
        raw: Any = connection.connection.driver_connection
        try:
            raw.execute("BEGIN IMMEDIATE")
            try:
                written = raw.executemany(_SQLITE, rows).rowcount
                if written != len(rows):
                    found = [raw.execute(_OURS_SQLITE, row[:2]).fetchone() for row in rows]
                raw.execute("COMMIT")
            except BaseException:
                raw.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise OSError(str(error)) from error
        self.stats.wrote(written)
        if written == len(rows):
            return [True] * len(rows)
        return [ours == (row.worker,) for ours, row in zip(found, rows, strict=True)]

    def _insert(self, connection: Connection, turns: Sequence[_Turn]) -> list[bool]:
        rows = [turn.row for turn in turns]
        if self._opened.is_sqlite:
            written = connection.exec_driver_sql(_SQLITE, rows).rowcount
        else:
            columns = {name: [getattr(row, name) for row in rows] for name in TurnRow._fields}
            written = connection.exec_driver_sql(_POSTGRESQL, columns).rowcount
        self.stats.wrote(written)
        if written == len(rows):
            return [True] * len(rows)
        return [self._is_in(connection, row) for row in rows]

    @staticmethod
    def _is_in(connection: Connection, row: TurnRow) -> bool:
        found = connection.execute(_OURS, {"episode": row.episode, "turn": row.turn}).scalar()
        return found == row.worker

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.invalidated:
            self._forget_connection()
            self._connection = self._opened.engine.connect()
            self._full_sync = False
        return self._connection

    def _sync(self, connection: Connection, strict: bool) -> None:
        """Force this group of a file to disk, or not; before its transaction begins.

        A database forces every group: what it is told to write later it would lose when it is stopped at once, and
        between later and at once it knows nothing.
        """
        if self._opened.is_sqlite and strict != self._full_sync:
            raw: Any = connection.connection.driver_connection
            raw.execute(f"PRAGMA synchronous={'FULL' if strict else 'NORMAL'}")
            self._full_sync = strict

    def _forget_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.invalidate()
            with contextlib.suppress(Exception):
                connection.close()


def _apart(connection: Connection, do: Callable[[Connection], T]) -> T | Exception:
    """Return what something does to the journal, or what it raises; undone then, without harm to the group."""
    savepoint = connection.begin_nested()
    try:
        value = do(connection)
        savepoint.commit()
    except sa.exc.OperationalError:
        raise  # the journal itself failed: the group fails with it
    except Exception as error:  # noqa: BLE001 - boundary: whoever asked is told
        savepoint.rollback()
        return error
    return value


def _words(error: Exception) -> str:
    """Return what the driver says; rows, and what else a statement held, are left out."""
    said = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error
    return f"{type(said).__name__}: {str(said).partition(chr(10))[0][:200]}"


def _deliver(answers: _Answers) -> None:
    for item, answer in answers:
        future = item.future
        if type(item) is _Turn and item.then is not None:
            item.then(answer is True)
        if future.done():
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
            future.exception()  # whoever asked may be gone; the log has it
        else:
            future.set_result(answer)
