"""What can be seen to be wrong with a row: a file may have been torn, or edited by hand.

A database of SQLite keeps in any column whatever it is given, so a row that is read says nothing of its kinds by
itself. What is inside a value (packed bytes, JSON, an action) is looked at by whoever unpacks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from agentenvs_servers.journal.schema import sessions

STATES = ("open", "closed", "expired")


class DamagedError(Exception):
    """The journal holds what was never written to it."""


def must_be_sound(table: sa.Table, row: Mapping[Any, Any]) -> None:
    """Refuse a row with a value that its column cannot hold.

    Args:
        table: Its table.
        row: Values by name of the column; some may be left out.

    Raises:
        DamagedError: The message names table and column, and no value.
    """
    for column in table.columns:
        if column.name in row and not _fits(column, row[column.name]):
            raise DamagedError(f"{table.name}.{column.name} is damaged")
    if table is sessions and row.get("state", "open") not in STATES:
        raise DamagedError("sessions.state is damaged")


def _fits(column: sa.Column[Any], value: Any) -> bool:
    if value is None:
        return bool(column.nullable)
    kind = column.type.python_type
    if kind is float:
        return isinstance(value, (int, float))
    return isinstance(value, kind)
