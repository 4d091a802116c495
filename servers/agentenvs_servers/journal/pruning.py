"""Makes a journal smaller, beside the server that may be using it: in small transactions, which hold nobody up long."""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

import sqlalchemy as sa

from agentenvs_servers.journal import operations
from agentenvs_servers.journal.opening import Opened

SLACK_SECONDS = 60.0
"""By how much the time of a session must be up: a server that is there would have seen to it."""

AT_ONCE = 200


class Pruned(NamedTuple):
    """What was done."""

    expired: int
    """Sessions that were let expire."""
    forgotten: int
    """Sessions that were deleted with all that was theirs."""


def prune(opened: Opened, older_than: float, *, expire: bool = False) -> Pruned:
    """Delete the sessions that are over for some time.

    Args:
        opened: The journal, for writing.
        older_than: Seconds.
        expire: Whether sessions are let expire first whose time is up and of which no server has taken notice.
    """
    expired = 0
    while expire:
        with opened.engine.begin() as connection:
            now = opened.now(connection)
            count = operations.give_up_due(connection, SLACK_SECONDS, AT_ONCE, now)
        expired += count
        expire = count > 0
    forgotten = 0
    while True:
        with opened.engine.begin() as connection:
            count = operations.forget(connection, older_than, opened.now(connection))
        forgotten += count
        if count == 0:
            return Pruned(expired, forgotten)


def vacuum(opened: Opened) -> None:
    """Give the room of what was deleted back; the turns of a file's server wait meanwhile.

    Raises:
        sqlalchemy.exc.DBAPIError: It cannot be done now.
    """
    if not opened.is_sqlite:
        with opened.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM (ANALYZE)")
        return
    raw: Any = opened.engine.raw_connection()
    try:
        raw.driver_connection.execute("VACUUM")
        raw.driver_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise sa.exc.DBAPIError("VACUUM", None, error) from error
    finally:
        raw.close()
