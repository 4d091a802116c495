"""Opens an index of runs: a file of this user's, or a PostgreSQL database that many share."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, event

from agentenvs.core.errors import ConfigError, DataError, ServiceError, UserError, missing_extra
from agentenvs.harness.runs.schema import VERSION_TABLE, metadata

BUSY_SECONDS = 30.0
"""How long one writer to a file waits for another."""

CONNECT_SECONDS = 5
_LOCK = 7267115


def default_file() -> Path:
    """Return the file of this user's index."""
    if folder := os.environ.get("XDG_DATA_HOME"):
        return Path(folder) / "agentenvs" / "runs.db"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "agentenvs" / "runs.db"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "agentenvs" / "runs.db"
    return Path.home() / ".local" / "share" / "agentenvs" / "runs.db"


@contextmanager
def opened(url: str | None = None) -> Iterator[Engine]:
    """Give an index, made or brought up to date where need be.

    Args:
        url: A path of an SQLite file, or an SQLAlchemy URL: ``sqlite:///…``, ``postgresql://…``. The user's own file
            where None.

    Raises:
        DataError: The file cannot be used, is no index, or is of a later version of this package.
        ServiceError: The database cannot be reached or used.
        ConfigError: The URL makes no sense.
        MissingExtraError: The driver of PostgreSQL is not installed.
    """
    url = str(default_file()) if url is None else url
    engine = _engine(url)
    try:
        with engine.begin() as connection:
            _migrate(connection)
        yield engine
    except sa.exc.DBAPIError as error:
        raise _refused(engine, url, error) from error
    finally:
        engine.dispose()


def locked(connection: Connection) -> None:
    """Let one writer at a time go on, until its transaction ends; a file sees to that by itself."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))


def _refused(engine: Engine, url: str, error: sa.exc.DBAPIError) -> UserError:
    kind = DataError if engine.dialect.name == "sqlite" else ServiceError
    why = str(error.orig).strip().partition("\n")[0][:300]
    return kind(f"the index of runs {_shown(url)} cannot be used", why=why, fix="give another --db, or repair it")


def _shown(url: str) -> str:
    return sa.make_url(url).render_as_string(hide_password=True) if "://" in url else url


def _engine(url: str) -> Engine:
    try:
        made = sa.make_url(url if "://" in url else f"sqlite:///{Path(url).absolute()}")
    except (sa.exc.ArgumentError, ValueError) as error:
        raise ConfigError("the address of the index is none", fix="a file, or postgresql://USER@HOST/NAME") from error
    if made.get_backend_name() == "sqlite":
        return _sqlite(made)
    if made.get_backend_name() == "postgresql":
        return _postgresql(made)
    raise ConfigError(f"an index of runs cannot be in {made.get_backend_name()}", fix="use SQLite or PostgreSQL")


def _sqlite(url: sa.URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ConfigError("an index in memory is forgotten at once", fix="give a file")
    file = Path(url.database)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"the index of runs {file} cannot be written", why=str(error)) from error
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(raw: sqlite3.Connection, _: Any) -> None:
        raw.isolation_level = None  # transactions are begun below, as writing ones: no upgrade can fail later
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            raw.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _postgresql(url: sa.URL) -> Engine:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise missing_extra("an index in PostgreSQL", "psycopg", "postgres") from error
    return sa.create_engine(url.set(drivername="postgresql+psycopg"), connect_args={"connect_timeout": CONNECT_SECONDS})


def _migrate(connection: Connection) -> None:
    """Bring the schema up to date; several may try at once.

    Raises:
        DataError: It is of a later version, or a database of something else.
    """
    locked(connection)
    tables = set(sa.inspect(connection).get_table_names())
    # A server's database may hold more than this index; a file is one thing.
    foreign = tables if connection.dialect.name == "sqlite" else tables.intersection(metadata.tables)
    if foreign and VERSION_TABLE not in tables:
        raise DataError(
            "the database is no index of runs", why=f"it holds {min(foreign)[:60]!r}", fix="give another --db"
        )
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise DataError(
            "the index of runs is of a later version",
            why=str(error),
            fix="use the version of agentenvs that made it, or give another --db: an index can be made again",
        ) from error
