"""Several servers, one after another or side by side, on one journal."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from agentenvs_servers.journal.opening import open_journal
from agentenvs_servers.keeping import Journal
from agentenvs_servers.settings import Settings
from tests.servers.wire import Play, Wire


class House:
    """Servers on one journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.wires: list[Wire] = []

    def start(
        self,
        *envs: str,
        shared: bool = False,
        fresh: bool = True,
        options: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Wire:
        """Start a server; one that is still there is left as a killed one would be."""
        journal = Journal(open_journal(str(self.path), fresh_epoch=fresh), f"{len(self.wires):08x}", shared=shared)
        self.wires.append(Wire(envs or ("room", "household"), Settings(**settings), options, journal))
        return self.wires[-1]

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Do to the journal what nobody should."""
        with sqlite3.connect(self.path) as raw:
            return raw.execute(statement, values).fetchall()


def moved(play: Play, wire: Wire) -> Play:
    """Return a session as its client sees it on another server."""
    return Play(wire, play.form)
