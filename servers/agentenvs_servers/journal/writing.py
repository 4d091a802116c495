"""The one writer of a worker: takes what its sessions do, and commits it in groups.

What the requests of one turn of the event loop hand over goes to a thread as one group, and what comes while that is
written is the next: one transaction, one call into each thread and one look at the result for all of them. So a commit
costs once what a step would cost alone, and the event loop never waits for a disk. A turn is inserted by one statement
that finds its session open and playing its episode, or not at all: another worker may have been asked meanwhile.

All turns of a group are one statement for SQLite too: the interpreter's lock is let go, and asked for again, once a
statement, and with a busy event loop beside it that costs more than the writing.

Where a transaction fails, each of its requests is told; what the journal says then is what is so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache
from itertools import chain
from time import perf_counter
from typing import Any, Generic, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection

from agentenvs_servers.failures import told
from agentenvs_servers.journal.opening import Opened
from agentenvs_servers.journal.stats import Stats

T = TypeVar("T")

MOST_IN_GROUP = 512

MOST_IN_STATEMENT = 64
"""Turns that one statement inserts into a file; each number of them is a statement that is kept prepared."""

log = logging.getLogger("agentenvs.journal")


class JournalDown(Exception):
    """The journal did not take it: the disk is full, the database is away. Nothing, or all, of it was written."""


TurnRow: TypeAlias = tuple[str, int, bytes, bytes, bytes | None, str | None, int]
"""A turn as it is inserted: episode, turn, action, digest, effects, failed, worker. A plain tuple: there are many."""

_COLUMNS = ("episode", "turn", "action", "digest", "effects", "failed", "worker")


class Handed:
    """A turn on its way to the journal; may be awaited, on the event loop alone."""

    __slots__ = ("_asked", "outcome", "row", "strict", "then")

    def __init__(self, row: TurnRow, strict: bool, then: Callable[[bool], None] | None) -> None:
        self.row = row
        self.strict = strict
        self.then = then
        self.outcome: bool | Exception | None = None
        """Whether it is in, or why nobody knows; None for as long as it is on its way."""
        self._asked: list[Callable[[], None]] | None = None

    def tell(self, asked: Callable[[], None]) -> None:
        """Have a function called once the outcome is there."""
        if self.outcome is not None:
            asked()
        elif self._asked is None:
            self._asked = [asked]
        else:
            self._asked.append(asked)

    def ended(self, outcome: bool | Exception) -> None:
        """Take the outcome, and tell it."""
        self.outcome = outcome
        if self.then is not None:
            self.then(outcome is True)
        if self._asked is not None:
            for asked in self._asked:
                asked()

    async def known(self) -> None:
        """Wait until the outcome is there, whatever it is."""
        if self.outcome is None:
            known = asyncio.get_running_loop().create_future()
            self.tell(lambda: None if known.done() else known.set_result(None))
            await known

    def __await__(self) -> Generator[Any, None, bool]:
        """Wait for the outcome.

        Raises:
            JournalDown: The journal did not take it.
        """
        yield from self.known().__await__()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome is True


class _Work(Generic[T]):
    """Anything else to be done in a transaction, apart from what else is in it."""

    __slots__ = ("do", "future", "strict")

    def __init__(self, do: Callable[[Connection], T], strict: bool, future: asyncio.Future[T]) -> None:
        self.do = do
        self.strict = strict
        self.future = future

    def ended(self, outcome: Any) -> None:
        """Tell the outcome."""
        if self.future.done():
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
            self.future.exception()  # whoever asked may be gone; the log has it
        else:
            self.future.set_result(outcome)


_Item: TypeAlias = Handed | _Work[Any]
_Answers: TypeAlias = list[tuple[_Item, Any]]

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

_SQLITE = (
    "INSERT INTO turns (episode, turn, action, digest, effects, failed, worker) "
    "SELECT no, column2, column3, column4, column5, column6, column7 "
    "FROM (VALUES {}) CROSS JOIN playing ON episode = column1 WHERE true ON CONFLICT DO NOTHING"
)

# Turns as nearly all are: without effects, and not failed. A value less to be bound is a tenth of what a turn costs.
_SQLITE_PLAIN = (
    "INSERT INTO turns (episode, turn, action, digest, worker) SELECT no, column2, column3, column4, ?1 "
    "FROM (VALUES {}) CROSS JOIN playing ON episode = column1 WHERE true ON CONFLICT DO NOTHING"
)

_OURS_SQLITE = (
    "SELECT worker FROM turns JOIN playing ON playing.no = turns.episode WHERE playing.episode = ? AND turn = ?"
)

_OURS = sa.text(
    "SELECT worker FROM turns JOIN playing ON playing.no = turns.episode "
    "WHERE playing.episode = :episode AND turns.turn = :turn"
)


@cache
def _texts(turns: int) -> tuple[str, str]:
    """Return the statements that insert a number of turns, any and plain ones; always the same texts."""
    any_of_them, plain = "(?, ?, ?, ?, ?, ?, ?)", "(?, ?, ?, ?)"
    return _SQLITE.format(", ".join([any_of_them] * turns)), _SQLITE_PLAIN.format(", ".join([plain] * turns))


def _sqlite(rows: Sequence[TurnRow]) -> tuple[str, tuple[Any, ...]]:
    """Return the statement that inserts some turns, and its values."""
    some, plain = _texts(len(rows))
    ends = {row[4:] for row in rows}
    effects, failed, worker = next(iter(ends))
    if len(ends) > 1 or effects is not None or failed is not None:
        return some, tuple(chain.from_iterable(rows))
    return plain, (worker, *chain.from_iterable([row[:4] for row in rows]))


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
        self._queue: queue.SimpleQueue[list[_Item] | None] = queue.SimpleQueue()
        self._gathered: list[_Item] = []
        """What goes into the next group."""
        self._due = False
        """Whether it will be handed over, without anything more having to happen."""
        self._in_thread = 0
        """How many requests the thread has."""
        self._connection: Connection | None = None
        self._full_sync = False
        self.stats = stats or Stats()
        self.refused = 0
        """Requests that it did not take since it last took one."""
        self._thread = threading.Thread(target=self._work, name="agentenvs-journal", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._gathered) + self._in_thread

    def turn(self, row: TurnRow, *, strict: bool, then: Callable[[bool], None] | None = None) -> Handed:
        """Insert a turn; the result says whether it is in: False where its session is no longer at this turn.

        Args:
            row: The turn.
            strict: Whether it must be on disk.
            then: Told whether it is in, before whoever waits.
        """
        handed = Handed(row, strict, then)
        self._gather(handed)
        return handed

    def run(self, do: Callable[[Connection], T], *, strict: bool = False) -> asyncio.Future[T]:
        """Do something in a transaction; what it raises undoes it alone.

        Raises:
            JournalDown: Through the future.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._gather(_Work(do, strict, future))
        return future

    def _gather(self, item: _Item) -> None:
        self._gathered.append(item)
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Hand over what was gathered."""
        group, self._gathered = self._gathered, []
        if group:
            self._in_thread += len(group)
            self._queue.put(group)
        elif not self._in_thread:
            self._due = False

    def close(self) -> None:
        """Commit what was handed over, and stop; from another thread than the event loop's."""
        self._queue.put(None)
        self._thread.join()
        self._forget_connection()

    def _deliver(self, answers: _Answers) -> None:
        self._in_thread -= len(answers)
        if self._gathered:
            self._loop.call_soon(self.flush)
        else:
            self._due = False
        for item, outcome in answers:
            try:
                item.ended(outcome)
            except Exception as error:  # noqa: BLE001 - boundary: the others are to be told all the same
                log.error("somebody who waited for the journal failed: %s", told(error))

    # ---- in the thread ---------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (group := self._queue.get()) is not None:
            answers: _Answers = []
            for start in range(0, len(group), MOST_IN_GROUP):
                answers += self._commit(group[start : start + MOST_IN_GROUP])
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._deliver, answers)

    def _commit(self, group: Sequence[_Item]) -> _Answers:
        began = perf_counter()
        try:
            connection = self._connected()
            self._sync(connection, any(item.strict for item in group))
            turns = [item for item in group if isinstance(item, Handed)]
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
        self.stats.is_damaged = self.stats.is_damaged or "malformed" in str(error)
        if not self.refused:
            log.error("the journal does not take what is to be written: %s", _words(error))
        self.refused += refused

    def _back(self) -> None:
        if self.refused:
            log.warning("the journal is back; %d requests were refused meanwhile", self.refused)
            self.refused = 0

    def _write(self, connection: Connection, group: Sequence[_Item], turns: Sequence[Handed]) -> _Answers:
        answers: _Answers = []
        if turns:
            answers += zip(turns, self._insert(connection, turns), strict=True)
        for item in group:
            if isinstance(item, _Work):
                answers.append((item, _apart(connection, item.do)))
        return answers

    def _insert_alone(self, connection: Connection, turns: Sequence[Handed]) -> list[bool]:
        """Insert turns in a transaction of their own, by the driver itself: by far the commonest, and twice as fast.

        Raises:
            OSError: The journal did not take them.
        """
        if len(turns) <= MOST_IN_STATEMENT:
            # One statement is a transaction. Where it did not take all, which ones is looked up afterwards: if their
            # episode ends in between, the last turn counts as one whose answer was lost on the way.
            return self._insert_in_file(connection, turns)
        raw: Any = connection.connection.driver_connection
        with _as_os_error():
            raw.execute("BEGIN IMMEDIATE")
            try:
                taken = self._insert_in_file(connection, turns)
                raw.execute("COMMIT")
            except BaseException:
                raw.execute("ROLLBACK")
                raise
        return taken

    def _insert(self, connection: Connection, turns: Sequence[Handed]) -> list[bool]:
        """Insert turns within a transaction, and return of each whether it is in."""
        if self._opened.is_sqlite:
            return self._insert_in_file(connection, turns)
        rows = [turn.row for turn in turns]
        columns = dict(zip(_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
        written = connection.exec_driver_sql(_POSTGRESQL, columns).rowcount
        self.stats.wrote(written)
        if written == len(rows):
            return [True] * written
        found = [connection.execute(_OURS, {"episode": row[0], "turn": row[1]}).scalar() for row in rows]
        return [worker == row[-1] for worker, row in zip(found, rows, strict=True)]

    def _insert_in_file(self, connection: Connection, turns: Sequence[Handed]) -> list[bool]:
        raw: Any = connection.connection.driver_connection
        rows = [turn.row for turn in turns]
        written = 0
        with _as_os_error():
            for start in range(0, len(rows), MOST_IN_STATEMENT):
                some = rows[start : start + MOST_IN_STATEMENT]
                written += raw.execute(*_sqlite(some)).rowcount
            if written != len(rows):
                found = [raw.execute(_OURS_SQLITE, row[:2]).fetchone() for row in rows]
        self.stats.wrote(written)
        if written == len(rows):
            return [True] * written
        return [worker == row[-1:] for worker, row in zip(found, rows, strict=True)]

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
            with _as_os_error():
                raw.execute(f"PRAGMA synchronous={'FULL' if strict else 'NORMAL'}")
            self._full_sync = strict

    def _forget_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.invalidate()
            with contextlib.suppress(Exception):
                connection.close()


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """Tell what the driver of files raises as what it is to the writer."""
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(str(error)) from error


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
