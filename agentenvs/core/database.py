"""Opens the databases of this package: a file of SQLite, or a PostgreSQL database that many share.

A caller says once what it keeps (:class:`Kept`), and has its engine, its migrations and its messages from that. What
talks to a file takes the right to write as its transaction begins, so that no upgrade of a reader can fail later; at
PostgreSQL, where a caller asks for it, one writer waits for another by a lock of the advisory kind.

SQLAlchemy and alembic come with this module: nothing else in core imports it, so that importing core stays light.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command, context
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, event

from agentenvs.core.errors import ConfigError, DataError, ServiceError, UserError, missing_extra

CONNECT_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept in a database, and the words of its messages."""

    name: str
    """``index of runs``."""
    flag: str
    """Of the command line, by which a user says where: ``--db``."""
    metadata: sa.MetaData
    migrations: Path
    """Folder of alembic's; its ``env.py`` calls :func:`run_migrations`."""
    lock: int
    """Number of PostgreSQL's advisory lock: another for everything that is kept."""
    version_table: str = "alembic_version"
    """Where alembic notes the version; one of its own where the database may hold more."""
    busy_seconds: float = 30.0
    """How long one writer to a file waits for another."""
    secret: bool = False
    """Whether a file is for its owner alone."""

    @contextmanager
    def opened(self, url: str) -> Iterator[Engine]:
        """Give the database, made or brought up to date where need be, and put away afterwards.

        Args:
            url: A path of an SQLite file, or an SQLAlchemy URL: ``sqlite:///…``, ``postgresql://…``.

        Raises:
            DataError: The file cannot be used, holds something else, or is of a later version of this package.
            ServiceError: The database cannot be reached or used.
            ConfigError: The URL makes no sense.
            MissingExtraError: The driver of PostgreSQL is not installed.
        """
        engine = self.engine(url)
        try:
            with engine.begin() as connection:
                self.migrate(connection)
            yield engine
        except sa.exc.DBAPIError as error:
            raise self.refused(url, error) from error
        finally:
            engine.dispose()

    def engine(self, url: str, **file_args: Any) -> Engine:
        """Return the way to a database; nothing is asked of it yet, but a file's folder is made.

        Args:
            url: As :meth:`opened` takes it.
            file_args: What ``sqlite3.connect`` is given besides, for a file.

        Raises:
            DataError: The file cannot be written.
            ConfigError: The URL makes no sense.
            MissingExtraError: The driver of PostgreSQL is not installed.
        """
        made = self.address(url)
        if made.get_backend_name() == "sqlite":
            return self._file(made, file_args)
        return self._postgresql(made)

    def address(self, url: str) -> sa.URL:
        """Return what a path or an address says.

        Raises:
            ConfigError: It says nothing, or names a database of another kind.
        """
        try:
            made = sa.make_url(url if "://" in url else f"sqlite:///{Path(url).absolute()}")
        except (sa.exc.ArgumentError, ValueError) as error:
            fix = f"give {self.flag} a file, or postgresql://USER@HOST/NAME"
            raise ConfigError(f"the address of the {self.name} is none", fix=fix) from error
        if (kind := made.get_backend_name()) not in ("sqlite", "postgresql"):
            raise ConfigError(f"the {self.name} cannot be in {kind}", fix="use SQLite or PostgreSQL")
        return made

    def migrate(self, connection: Connection) -> None:
        """Bring the schema up to date; several may try at once.

        Raises:
            DataError: It is of a later version, or a database of something else.
        """
        self.lock_writers(connection)
        tables = set(sa.inspect(connection).get_table_names())
        # A server's database may hold more than this; a file is one thing.
        foreign = tables if connection.dialect.name == "sqlite" else tables.intersection(self.metadata.tables)
        if foreign and self.version_table not in tables:
            why = f"it holds {min(foreign)[:60]!r}"
            raise DataError(f"the database is no {self.name}", why=why, fix=f"give another {self.flag}")
        config = self.config()
        config.attributes.update(connection=connection, kept=self)
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise DataError(
                f"the {self.name} is of a later version",
                why=str(error),
                fix=f"use the version of agentenvs that made it, or give another {self.flag}",
            ) from error

    def config(self) -> Config:
        """Return what alembic is told."""
        config = Config()
        config.set_main_option("script_location", str(self.migrations).replace("%", "%%"))
        return config

    def lock_writers(self, connection: Connection) -> None:
        """Let one writer at a time go on, until its transaction ends; a file sees to that by itself."""
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({self.lock})"))

    def refused(self, url: str, error: sa.exc.DBAPIError) -> UserError:
        """Return what to say of a database that failed."""
        kind = DataError if self.address(url).get_backend_name() == "sqlite" else ServiceError
        why = str(error.orig).strip().partition("\n")[0][:300]
        fix = f"give another {self.flag}, or repair it"
        return kind(f"the {self.name} {shown(url)} cannot be used", why=why, fix=fix)

    def _file(self, url: sa.URL, file_args: dict[str, Any]) -> Engine:
        if not url.database or url.database == ":memory:":
            raise ConfigError(f"the {self.name} would be forgotten at once in memory", fix=f"give {self.flag} a file")
        file = Path(url.database)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if self.secret:  # before anybody else can look in
                os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise DataError(f"the {self.name} {file} cannot be written", why=str(error)) from error
        engine = sa.create_engine(url, connect_args={"timeout": self.busy_seconds, **file_args})
        on_begin(engine, "BEGIN IMMEDIATE", "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON")
        return engine

    def _postgresql(self, url: sa.URL) -> Engine:
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise missing_extra(f"the {self.name} in PostgreSQL", "psycopg", "postgres") from error
        connect_args = {"connect_timeout": CONNECT_SECONDS}
        return sa.create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True, connect_args=connect_args)


def on_begin(engine: Engine, statement: str, *pragmas: str) -> None:
    """Let each transaction of an SQLite file begin as said, and each connection with these settings."""

    @event.listens_for(engine, "connect")
    def prepare(raw: sqlite3.Connection, _: Any) -> None:
        raw.isolation_level = None  # transactions are begun below, by us
        for pragma in pragmas:
            raw.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)


def shown(url: str) -> str:
    """Return the address of a database without its password."""
    try:
        return sa.make_url(url).render_as_string(hide_password=True) if "://" in url else url
    except (sa.exc.ArgumentError, ValueError):
        return "(not a URL)"


def run_migrations() -> None:
    """Bring the schema of the connection that alembic was handed to the version that was asked for."""
    handed = context.config.attributes
    kept: Kept = handed["kept"]
    context.configure(
        connection=handed["connection"],
        target_metadata=kept.metadata,
        render_as_batch=True,
        version_table=kept.version_table,
    )
    with context.begin_transaction():
        context.run_migrations()
