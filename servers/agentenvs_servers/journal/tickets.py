"""The tickets in a journal: issued by its operator, used up by a contestant, settled when all is over.

A ticket's scenario number *k* (from 0) is made by the create of its tenant with the key *k*, so that whoever asks for
it again is given the same episode. Opening one is a conditional update in one statement: of two that ask at once, both
are given the same scenario. What a ticket opened is kept until it is settled, whatever the retention time.
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from agentenvs.core.errors import ConfigError
from agentenvs_servers.journal import operations
from agentenvs_servers.journal.rows import lookup
from agentenvs_servers.journal.schema import episodes, sessions, tickets
from agentenvs_servers.names import new_ticket

MOST_SCENARIOS = 10_000
"""Of one ticket."""

MOST_NAME = 80
"""Characters of a contestant's or a board's name."""

SLACK_SECONDS = 60.0
"""How long after the deadline a running episode may still come to its end."""

_TENANT = "ticket:"


class Held(NamedTuple):
    """A ticket as it stands."""

    id: bytes
    name: str
    """Its public name."""
    board: str
    contestant: str
    agent: str
    attempt: int
    """Which ticket of this contestant for the same scenarios, from 1."""
    env: str
    split: str
    secret: str
    """Name of the operator's secret."""
    numbers: tuple[int, ...]
    """Indices in the split, in the order in which they are given out."""
    opened: int
    issued: float
    deadline: float
    settled: float | None

    @property
    def tenant(self) -> str:
        """Whose its sessions are; no token can have this name."""
        return f"{_TENANT}{self.name}"


class Played(NamedTuple):
    """What became of one scenario of a ticket."""

    place: int
    number: int
    state: str
    """``unopened``, ``open``, ``closed`` or ``expired``."""
    ending: str | None
    record: bytes | None
    """The whole record; None where there is none."""


class Terms(NamedTuple):
    """What a ticket is issued for."""

    board: str
    contestant: str
    env: str
    split: str
    secret: str
    """Name of the operator's secret."""
    deadline: float
    """Seconds of the civil clock."""
    agent: str = "agent"
    """What plays, as the contestant says."""


def issue(
    connection: Connection,
    terms: Terms,
    order: Callable[[str], Sequence[int]],
    now: float,
    *,
    again: bool = False,
    named: Callable[[int], str] = lambda attempt: f"tk-{secrets.token_hex(12)}",
) -> tuple[str, Held]:
    """Issue a ticket.

    Args:
        connection: A transaction.
        terms: For whom and what.
        order: Tells the indices of its scenarios, in the order in which they are given out, from its public name.
        now: The civil clock.
        again: Whether the contestant may have had one for the same scenarios.
        named: Tells its public name from the number of the attempt.

    Returns:
        The ticket, which is written down nowhere, and what is known of it.

    Raises:
        ConfigError: A name or number that makes no sense; or the contestant had a ticket.
    """
    for what, name in (("board", terms.board), ("contestant", terms.contestant), ("agent", terms.agent)):
        if not 0 < len(name) <= MOST_NAME or not name.isprintable() or name != name.strip():
            raise ConfigError(f"the name of the {what} makes no sense", fix=f"1 to {MOST_NAME} printable characters")
    if terms.deadline <= now:
        raise ConfigError("the ticket would have no time", fix="give a deadline that is to come")
    mine = [getattr(tickets.c, name) == getattr(terms, name) for name in ("contestant", "board", "env", "secret")]
    had = connection.execute(sa.select(sa.func.max(tickets.c.attempt)).where(*mine)).scalar() or 0
    if had and not again:
        raise ConfigError(
            f"{terms.contestant!r} has had a ticket for these scenarios",
            why="whoever has seen them plays them otherwise",
            fix="wait for the next secret, or issue it as a further attempt (--again), which the board shows",
        )
    ticket, name = new_ticket(), named(had + 1)
    numbers = tuple(order(name))
    if not 0 < len(numbers) <= MOST_SCENARIOS or len(set(numbers)) != len(numbers):
        raise ConfigError("the scenarios of the ticket make no sense", fix=f"1 to {MOST_SCENARIOS}, each once")
    held = Held(
        id=lookup(ticket),
        name=name,
        attempt=had + 1,
        numbers=numbers,
        opened=0,
        issued=now,
        settled=None,
        **terms._asdict(),
    )
    connection.execute(sa.insert(tickets).values({**held._asdict(), "numbers": json.dumps(numbers)}))
    return ticket, held


def find(connection: Connection, digest: bytes) -> Held | None:
    """Return a ticket by its digest."""
    row = connection.execute(sa.select(tickets).where(tickets.c.id == digest)).one_or_none()
    return None if row is None else _held(row)


def known(connection: Connection) -> list[Held]:
    """Return all tickets, the oldest first."""
    return [_held(row) for row in connection.execute(sa.select(tickets).order_by(tickets.c.issued, tickets.c.name))]


def _held(row: sa.Row[tuple[object, ...]]) -> Held:
    form = dict(row._mapping)
    return Held(**{**form, "numbers": tuple(json.loads(str(form["numbers"])))})


def open_next(connection: Connection, held: Held) -> bool:
    """Take the next scenario of a ticket, where it stands as is thought; return whether it did."""
    taken = connection.execute(
        sa.update(tickets)
        .where(tickets.c.id == held.id, tickets.c.opened == held.opened, tickets.c.settled.is_(None))
        .values(opened=held.opened + 1)
    )
    return taken.rowcount > 0


def session_of(connection: Connection, held: Held, episode: str) -> str | None:
    """Return the session of an episode of a ticket."""
    found: str | None = connection.execute(
        sa.select(sessions.c.name)
        .join_from(sessions, episodes, episodes.c.session == sessions.c.id)
        .where(sessions.c.tenant == held.tenant, episodes.c.id == episode)
    ).scalar()
    return found


def played(connection: Connection, held: Held, *, records: bool = True) -> list[Played]:
    """Return what became of each scenario of a ticket, in order.

    Args:
        connection: A transaction.
        held: The ticket.
        records: Whether to read the records too.
    """
    record = episodes.c.record if records else sa.null().label("record")
    found = connection.execute(
        sa.select(sessions.c.create_key, sessions.c.state, episodes.c.number, episodes.c.ending, record)
        .join_from(sessions, episodes, episodes.c.session == sessions.c.id)
        .where(sessions.c.tenant == held.tenant)
    )
    by_place = {int(row.create_key): row for row in found}
    outcomes = []
    for place, number in enumerate(held.numbers):
        row = by_place.get(place)
        if row is None or row.number != number:
            outcomes.append(Played(place, number, "unopened", None, None))
        else:
            outcomes.append(Played(place, number, row.state, row.ending, _unpacked(row.record)))
    return outcomes


def _unpacked(record: bytes | None) -> bytes | None:
    try:
        return None if record is None else zlib.decompress(record)
    except zlib.error:
        return None


def is_due(held: Held, outcomes: Iterable[Played], now: float) -> bool:
    """Return whether nothing more can come of a ticket."""
    states = [one.state for one in outcomes]
    if "open" in states:
        return now > held.deadline + SLACK_SECONDS
    return held.settled is None and (now > held.deadline or "unopened" not in states)


def end_late(connection: Connection, held: Held, now: float) -> None:
    """End what a ticket still plays after its deadline, as abandoned and without a record.

    Args:
        connection: A transaction.
        held: The ticket.
        now: The journal's clock.
    """
    late = sa.select(sessions.c.id).where(sessions.c.tenant == held.tenant, sessions.c.state == "open")
    for session in connection.execute(late).scalars().all():
        if operations.abandon(connection, session, now):
            unjudged = sa.and_(episodes.c.session == session, episodes.c.record.is_(None))
            connection.execute(sa.update(episodes).where(unjudged).values(ending="abandoned"))


def settle(connection: Connection, held: Held, now: float) -> bool:
    """Close a ticket for ever; return whether it was open. What it played is forgotten after the retention time."""
    done = connection.execute(
        sa.update(tickets).where(tickets.c.id == held.id, tickets.c.settled.is_(None)).values(settled=now)
    )
    return done.rowcount > 0
