"""Opens a journal: a file for one machine, or a PostgreSQL database for many.

SQLite runs in WAL mode: a commit reaches the operating system, so a killed server loses nothing; ``strict`` sessions
have their commits forced to disk. Its clock is the machine's monotonic one, counted from when the journal was opened,
so that neither a clock set back nor a night without power expires a session. PostgreSQL brings its own clock, and
forces every group of commits to disk: ``group`` and ``strict`` are the same there.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from agentenvs.core.database import Kept, on_begin, shown
from agentenvs.core.errors import DataError
from agentenvs_servers.journal.schema import meta, metadata, sessions

PREPARED_STATEMENTS = 256
"""Statements that a connection to a file keeps prepared; the writer has one for each size of a group of turns."""

JOURNAL = Kept(
    "journal",
    "--journal",
    metadata,
    Path(__file__).parent / "migrations",
    lock=7267114,
    busy_seconds=10.0,
    secret=True,  # whoever reads it can control the sessions in it
)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open journal."""

    engine: Engine
    now: Callable[[Connection], float]
    """Seconds of the journal's clock."""
    file: tuple[str, int, int] | None = None
    """Path of its file, with the device and number it had when it was opened."""

    @property
    def is_there(self) -> bool:
        """Whether its file is still the one that was opened; what is written to one that was taken away is lost."""
        if self.file is None:
            return True
        try:
            return _file(self.file[0]) == self.file
        except OSError:
            return False

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file."""
        return self.engine.dialect.name == "sqlite"


def open_journal(url: str, *, fresh_epoch: bool = True) -> Opened:
    """Open a journal, and bring its schema up to date.

    Args:
        url: A path of an SQLite file, or an SQLAlchemy URL: ``sqlite:///…``, ``postgresql://…``.
        fresh_epoch: Whether a server begins here: open sessions of a file begin their time to live anew. False for
            further workers of a server.

    Raises:
        DataError: The file cannot be used, is no journal, or is of a later version of this package.
        ServiceError: The database cannot be reached or used.
        ConfigError: The URL makes no sense.
        MissingExtraError: The driver of PostgreSQL is not installed.
    """
    engine = JOURNAL.engine(url, check_same_thread=False, cached_statements=PREPARED_STATEMENTS)
    try:
        with engine.begin() as connection:
            JOURNAL.migrate(connection)
        if engine.dialect.name != "sqlite":
            return Opened(engine, _database_clock)
        with engine.begin() as connection:
            epoch = _epoch(connection, fresh_epoch)
        return Opened(engine, lambda _: time.monotonic() - epoch, _file(engine.url.database))
    except sa.exc.DBAPIError as error:
        engine.dispose()
        raise JOURNAL.refused(url, error) from error


def _file(path: str | None) -> tuple[str, int, int] | None:
    if not path or path == ":memory:":
        return None
    found = os.stat(path)
    return path, found.st_dev, found.st_ino


def visit(url: str, *, writes: bool) -> Opened:
    """Open a journal that is there, beside the server that may be using it; its schema is left as it is.

    Args:
        url: As :func:`open_journal` takes it.
        writes: Whether to change something. Who only reads holds nobody up.

    Raises:
        DataError: There is no such file, it is no journal, or of another version of this package.
        ServiceError: The database cannot be reached or used.
        ConfigError: The URL makes no sense.
        MissingExtraError: The driver of PostgreSQL is not installed.
    """
    made = JOURNAL.address(url)
    is_sqlite = made.get_backend_name() == "sqlite"
    engine = _visited(made, writes) if is_sqlite else JOURNAL.engine(url)
    try:
        with engine.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
            if found != (wanted := ScriptDirectory.from_config(JOURNAL.config()).get_current_head()):
                raise DataError(
                    f"the journal {shown(url)} is " + ("none" if found is None else "of another version"),
                    why=f"its schema is {found}, this version's {wanted}",
                    fix="use the version of agentenvs that serves it, or serve it once with this one",
                )
            if not is_sqlite:
                return Opened(engine, _database_clock)
            epoch = connection.execute(sa.select(meta.c.value).where(meta.c.name == "epoch")).scalar()
        return Opened(engine, lambda _: time.monotonic() - float(epoch or 0.0))
    except sa.exc.DBAPIError as error:
        engine.dispose()
        raise JOURNAL.refused(url, error) from error
    except DataError:
        engine.dispose()
        raise


def _visited(url: sa.URL, writes: bool) -> Engine:
    """Return the way to a file that is there already."""
    file = Path(url.database or "")
    if not file.is_file():
        raise DataError(f"there is no journal {file}", fix="give the file that the server was given with --journal")
    address = f"file:{quote(str(file.absolute()))}?mode={'rw' if writes else 'ro'}"
    engine = sa.create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(address, uri=True, timeout=JOURNAL.busy_seconds, check_same_thread=False),
        poolclass=sa.pool.NullPool,
    )
    on_begin(engine, "BEGIN IMMEDIATE" if writes else "BEGIN", "foreign_keys=ON")
    return engine


def _epoch(connection: Connection, fresh: bool) -> float:
    """Return when the journal was opened, on this machine's monotonic clock."""
    row = connection.execute(sa.select(meta.c.value).where(meta.c.name == "epoch")).scalar()
    if row is not None and not fresh:
        return float(row)
    now = time.monotonic()
    connection.execute(sa.delete(meta).where(meta.c.name == "epoch"))
    connection.execute(sa.insert(meta).values(name="epoch", value=repr(now)))
    connection.execute(sa.update(sessions).values(born=0.0, touched=0.0, lease=0.0).where(sessions.c.state == "open"))
    connection.execute(sa.update(sessions).values(over=0.0).where(sessions.c.state != "open"))
    return now


def _database_clock(connection: Connection) -> float:
    return float(connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
