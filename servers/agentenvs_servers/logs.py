"""The server's log: one line each, as text or as JSON, with the id of the request it is about; and of each request.

What a request's line says is its route, never its address, for addresses hold secrets. Of a failure its kind and place
are told, never its words, see :mod:`~agentenvs_servers.failures`.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import orjson

from agentenvs_servers.failures import told
from agentenvs_servers.requests import Request, current

access = logging.getLogger("agentenvs.access")

_OURS = ("agentenvs", "uvicorn")


class Lines(logging.Formatter):
    """Writes records as lines of text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        fields = _fields(record)
        time, level, logger, message = (fields.pop(name) for name in ("time", "level", "logger", "message"))
        more = " ".join(f"{name}={value}" for name, value in fields.items())
        return f"{time} {level} {logger}: {message}{more and f' [{more}]'}"


class JsonLines(logging.Formatter):
    """Writes records as JSON objects, one a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return orjson.dumps(_fields(record), default=str).decode()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname,
        "logger": record.name,
        "process": record.process,
        "message": " ".join(record.getMessage().split("\n")),
    }
    if record.exc_info and record.exc_info[1] is not None:
        fields["failure"] = told(record.exc_info[1])
    asked: dict[str, Any] | None = getattr(record, "asked", None)
    request = current.get()
    if asked is not None:
        fields |= asked
    elif request is not None:
        fields["request"] = request.id
    return fields


def set_up(form: str, *, requests: bool) -> None:
    """Write the log of this process to its standard error.

    Args:
        form: ``text`` or ``json``.
        requests: Whether each request has a line.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else Lines())
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO if name == "agentenvs" else logging.WARNING)
    access.setLevel(logging.INFO if requests else logging.WARNING)


def told_of(request: Request, route: str, status: int, seconds: float) -> None:
    """Write the line of a request."""
    asked: dict[str, Any] = {"request": request.id, "route": route, "status": status, "ms": round(seconds * 1e3, 3)}
    if request.tenant:
        asked["tenant"] = request.tenant
    access.info("answered", extra={"asked": asked})
