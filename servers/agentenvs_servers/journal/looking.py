"""What an operator may read in a journal: which sessions there are, and all that is kept of them.

Neither the names of sessions nor agent keys nor the keys of creates are told: a session is named by the digest of its
name, so whoever reads what is told here can control nothing. Reading holds up no server: it sees the journal as it was
at one moment.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from agentenvs_servers.journal.opening import Opened
from agentenvs_servers.journal.rows import SHORT
from agentenvs_servers.journal.schema import checkpoints, episodes, sessions, turns


class Line(NamedTuple):
    """A session, in short."""

    session: str
    """The beginning of the digest of its name, in hexadecimal digits."""
    tenant: str
    env: str
    split: str
    number: int
    """Index of the scenario that is played, or its seed."""
    state: str
    episodes: int
    """Begun so far."""
    turn: int | None
    """Of the episode that runs; None where the session is over."""
    age: float
    """Seconds since it was made; in a file since its server started, where that is later."""
    idle: float
    """Seconds since it was answered, or since it is over."""
    durability: str
    worker: str
    """Route of the worker that made it, or took it over."""


@contextmanager
def reading(opened: Opened) -> Iterator[Connection]:
    """Give a connection that sees the journal as it is at this moment."""
    with opened.engine.connect() as connection:
        if not opened.is_sqlite:
            connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with connection.begin():
            yield connection


def lines(opened: Opened, state: str | None = None, tenant: str | None = None) -> list[Line]:
    """Return the sessions of a journal, the oldest first.

    Args:
        opened: The journal.
        state: ``open``, ``closed`` or ``expired``; all where None.
        tenant: Whose; everybody's where None.
    """
    last = (
        sa.select(sa.func.max(turns.c.turn))
        .where(turns.c.episode == episodes.c.no)
        .correlate(episodes)
        .scalar_subquery()
    )
    saved = sa.select(checkpoints.c.turn).where(checkpoints.c.episode == episodes.c.id).scalar_subquery()
    query = (
        sa.select(sessions, episodes.c.split, episodes.c.number, sa.func.coalesce(last, saved, 0).label("turn"))
        .outerjoin(episodes, episodes.c.id == sessions.c.episode)
        .order_by(sessions.c.born, sessions.c.id)
    )
    if state is not None:
        query = query.where(sessions.c.state == state)
    if tenant is not None:
        query = query.where(sessions.c.tenant == tenant)
    with reading(opened) as connection:
        now = opened.now(connection)
        return [_line(row, now) for row in connection.execute(query)]


def _line(row: Any, now: float) -> Line:
    return Line(
        session=row.id.hex()[:SHORT],
        tenant=row.tenant,
        env=row.env,
        split=row.split or "(missing)",
        number=row.number or 0,
        state=row.state,
        episodes=row.begun,
        turn=row.turn if row.state == "open" else None,
        age=_since(row.born, now),
        idle=_since(row.touched if row.over is None else row.over, now),
        durability="strict" if row.strict else "group",
        worker=row.owner,
    )


def _since(moment: Any, now: float) -> float:
    return max(now - moment, 0.0) if isinstance(moment, (int, float)) else 0.0


def export(opened: Opened) -> Iterator[tuple[dict[str, Any], bytes | None]]:
    """Return all of a journal: an object for each session, episode and turn.

    Yields:
        The object, with ``kind``; for an episode also its record, whole, where it is over and its record is kept.
    """
    with reading(opened) as connection:
        for session in connection.execute(sa.select(sessions).order_by(sessions.c.born, sessions.c.id)).all():
            yield _session(session), None
            kept = sa.select(episodes).where(episodes.c.session == session.id).order_by(episodes.c.n)
            for episode in connection.execute(kept).all():
                yield _episode(session, episode), _record(episode)
                played = sa.select(turns).where(turns.c.episode == episode.no).order_by(turns.c.turn)
                for turn in connection.execute(played):
                    yield _turn(episode, turn), None


def _session(row: Any) -> dict[str, Any]:
    plain = ("tenant", "env", "release", "spec", "traced", "state", "begun", "episode")
    return {
        "kind": "session",
        "session": row.id.hex(),
        **{name: getattr(row, name) for name in plain},
        "options": _json(row.options),
        "durability": "strict" if row.strict else "group",
        "ttl": {"idle": row.idle, "absolute": row.absolute},
    }


def _episode(session: Any, row: Any) -> dict[str, Any]:
    return {
        "kind": "episode",
        "session": session.id.hex(),
        "episode": row.id,
        "n": row.n,
        "split": row.split,
        "number": row.number,
        "player": _json(row.player),
        "ending": row.ending,
        "record": _record(row) is not None,
    }


def _record(row: Any) -> bytes | None:
    """Return the record of an episode; None where there is none that can be told."""
    try:
        return None if row.record is None else zlib.decompress(row.record)
    except (TypeError, zlib.error):
        return None


def _turn(episode: Any, row: Any) -> dict[str, Any]:
    return {
        "kind": "turn",
        "episode": episode.id,
        "turn": row.turn,
        "action": _json(row.action),
        "digest": row.digest.hex() if isinstance(row.digest, bytes) else _damaged(row.digest),
        "effects": None if row.effects is None else _json(row.effects),
        "failed": row.failed,
    }


def _json(data: Any) -> Any:
    """Return what is kept as JSON; what stands there instead, where it is damaged."""
    try:
        return json.loads(data)
    except (TypeError, ValueError):
        return _damaged(data)


def _damaged(data: Any) -> dict[str, str]:
    return {"damaged": data.hex() if isinstance(data, bytes) else str(data)}
