"""The account at the end: every episode that a client began against the server's record of it, and the journal."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa

from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.record import Record, parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs_servers.journal.schema import counters, creates, episodes, sessions, turns
from tests.faults.calling import Caller
from tests.faults.players import Book, Tale

WRONGS = ("lost", "doubled", "swapped", "diverged", "refused", "failed")


async def fetch(book: Book, caller: Caller) -> None:
    """Fetch the records that clients did not fetch themselves."""
    for tale in book.tales:
        if tale.record is None and tale.session is not None:
            answer = await caller.ask("GET", f"{tale.session}/record?episode={tale.name}")
            if answer.status == 200:
                tale.record = answer.body
            else:
                book.faults.append(("lost", f"no record of {tale.name}: {answer.status} {answer.body[:200]!r}"))
    await caller.close()


def audit(book: Book, url: str) -> Counter[str]:
    """Hold what the clients saw against records and journal; the faults are added to the book.

    Returns:
        How many faults of each kind there are.
    """
    for tale in book.tales:
        if tale.record is not None:
            book.faults += [(kind, f"{tale.name}: {words}") for kind, words in _faults_of(tale, tale.record)]
    book.faults += _faults_in_journal(book, url)
    return Counter(dict.fromkeys(WRONGS, 0) | Counter(kind for kind, _ in book.faults))


def _faults_of(tale: Tale, data: bytes) -> list[tuple[str, str]]:
    try:
        (record,) = parse_records(data)
    except (AgentEnvsError, ValueError) as error:
        return [("diverged", f"its record cannot be read: {error}")]
    faults = _differences(tale, record)
    report = replay(record)
    if not report.equal:
        faults.append(("diverged", str(report.divergence)))
    elif not rescore(record).equal:
        faults.append(("diverged", "its verdict is judged otherwise"))
    return faults


def _differences(tale: Tale, record: Record) -> list[tuple[str, str]]:
    faults = []
    if (record.ref, record.header["observation"]) != (tale.ref, tale.opening):
        faults.append(("swapped", f"the record is of {record.ref}, the client played {tale.ref}"))
    if len(record.turns) < len(tale.turns):
        faults.append(("lost", f"the record has {len(record.turns)} turns, the client saw {len(tale.turns)}"))
    if len(record.turns) > len(tale.turns):
        faults.append(("doubled", f"the record has {len(record.turns)} turns, the client saw {len(tale.turns)}"))
    for line, saw in zip(record.turns, tale.turns, strict=False):
        found = (line["turn"], line["action"], line["observation"], line["reward"])
        if found != saw:
            faults.append(("swapped", f"the record has {found!r:.200}, the client saw {saw!r:.200}"))
            break
    return faults


def _faults_in_journal(book: Book, url: str) -> list[tuple[str, str]]:
    made = sa.make_url(url if "://" in url else f"sqlite:///{url}")
    engine = sa.create_engine(made if made.drivername == "sqlite" else made.set(drivername="postgresql+psycopg"))
    faults = []
    try:
        with engine.connect() as connection:
            known = {tale.name: tale for tale in book.tales}
            rows = connection.execute(sa.select(episodes.c.id, episodes.c.record)).all()
            # A client of the package's own makes a session for each time that it needs one.
            counts = {
                "open sessions": _count(connection, sa.select(sa.func.count()).where(sessions.c.state == "open")),
                "counted sessions": _count(connection, sa.select(sa.func.sum(counters.c.open))),
                "turns left": _count(connection, sa.select(sa.func.count()).select_from(turns)),
            }
            begun = _count(connection, sa.select(sa.func.count()).select_from(sessions))
            asked = _count(connection, sa.select(sa.func.count()).select_from(creates))
    finally:
        engine.dispose()
    faults += [("doubled", f"{count} {what}") for what, count in counts.items() if count]
    faults += [("doubled", f"{begun} sessions for {asked} creates")] if begun != asked else []
    faults += [("doubled", f"nobody began {row.id}") for row in rows if row.id not in known]
    faults += [("lost", f"{name} is not in the journal") for name in known if name not in {row.id for row in rows}]
    for row in rows:
        tale = known.get(row.id)
        if row.record is None:
            faults.append(("lost", f"{row.id} has no record in the journal"))
        elif tale is not None and tale.record is not None and zlib.decompress(row.record) != tale.record:
            faults.append(("swapped", f"the journal has another record of {row.id} than its client was given"))
    return faults


def _count(connection: sa.Connection, query: sa.Select[tuple[int]]) -> int:
    return connection.execute(query).scalar() or 0


def told(faults: Sequence[tuple[str, str]], most: int = 8) -> str:
    """Return the first faults in words."""
    return "\n".join(f"{kind}: {words}" for kind, words in faults[:most])
