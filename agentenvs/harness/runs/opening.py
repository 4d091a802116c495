"""Opens an index of runs: a file of this user's, or a PostgreSQL database that many share."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from sqlalchemy import Engine

from agentenvs.core.database import Kept
from agentenvs.harness.runs.schema import VERSION_TABLE, metadata

INDEX = Kept(
    "index of runs", "--db", metadata, Path(__file__).parent / "migrations", lock=7267115, version_table=VERSION_TABLE
)


def default_file() -> Path:
    """Return the file of this user's index."""
    if folder := os.environ.get("XDG_DATA_HOME"):
        return Path(folder) / "agentenvs" / "runs.db"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "agentenvs" / "runs.db"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "agentenvs" / "runs.db"
    return Path.home() / ".local" / "share" / "agentenvs" / "runs.db"


def opened(url: str | None = None) -> AbstractContextManager[Engine]:
    """Give an index, made or brought up to date where need be.

    Args:
        url: As :meth:`Kept.opened` takes it, with its errors; the user's own file where None.
    """
    return INDEX.opened(str(default_file()) if url is None else url)
