"""Brings run folders into the index.

A run is known by its name (``run_id``), which its folder keeps wherever it is moved. A folder that has not changed
since it was read changes nothing; one whose table has only grown adds its new lines; one that changed otherwise
(episodes were played again) is read anew. Two folders that claim the same name and differ are a conflict: the index
stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from agentenvs.core.errors import ConfigError, DataError
from agentenvs.harness.runs import scanning, schema
from agentenvs.harness.runs.opening import INDEX
from agentenvs.harness.runs.scanning import COLUMNS, Damage, Scanned

What = Literal["new", "grown", "changed", "moved", "unchanged"]

MAX_TAG = 80
_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class Indexed:
    """What came of one folder."""

    run: str
    folder: str
    what: What
    episodes: int
    """Rows the run has now."""
    damage: tuple[Damage, ...]


def index(engine: Engine, folder: Path, tags: Iterable[str] = ()) -> Indexed:
    """Bring one run folder into the index.

    Args:
        engine: The index.
        folder: The run's folder.
        tags: What to file it under, beside what it was filed under before.

    Raises:
        DataError: The folder cannot be read, or another one claims to be the same run and differs.
        ConfigError: A tag that is none.
    """
    wanted = _checked(tags)
    scanned = scanning.scan(folder)
    facts, damaged = scanned.facts, schema.damage.c
    with engine.begin() as connection:
        INDEX.lock_writers(connection)
        known = _known(connection, facts["id"])
        what = _what(scanned, known)
        number = _write(connection, scanned, known, what)
        _tag(connection, number, wanted)
        damage = connection.execute(
            sa.select(damaged.file, damaged.line, damaged.why).where(damaged.run == number).order_by(damaged.line)
        ).all()
        count = connection.execute(sa.select(schema.runs.c.episodes).where(schema.runs.c.no == number)).scalar_one()
    return Indexed(facts["id"], facts["folder"], what, count, tuple(Damage(*row) for row in damage))


def forget(engine: Engine, run: str) -> None:
    """Take a run out of the index; its folder stays."""
    with engine.begin() as connection:
        INDEX.lock_writers(connection)
        connection.execute(sa.delete(schema.runs).where(schema.runs.c.id == run))


def _checked(tags: Iterable[str]) -> list[str]:
    found = sorted(set(tags))
    for tag in found:
        if not tag.strip() or len(tag) > MAX_TAG or not tag.isprintable():
            raise ConfigError(f"{tag[:100]!r} is no tag", fix=f"1 to {MAX_TAG} characters that print")
    return found


def _known(connection: Connection, run: str) -> sa.RowMapping | None:
    return connection.execute(sa.select(schema.runs).where(schema.runs.c.id == run)).mappings().first()


def _tag(connection: Connection, number: int, wanted: Sequence[str]) -> None:
    tags = schema.tags
    there = set(connection.execute(sa.select(tags.c.tag).where(tags.c.run == number)).scalars())
    if new := [{"run": number, "tag": tag} for tag in wanted if tag not in there]:
        connection.execute(sa.insert(tags), new)


def _what(scanned: Scanned, known: sa.RowMapping | None) -> What:
    facts = scanned.facts
    if known is None:
        return "new"
    elsewhere = known["folder"] != facts["folder"]
    is_there = elsewhere and _claims(Path(known["folder"]), facts["id"])
    if known["content"] == facts["content"]:
        return "moved" if elsewhere and not is_there else "unchanged"
    if is_there:
        raise DataError(
            f"{facts['folder']} and {known['folder']} claim to be the same run, and differ",
            why=f"both are named {facts['id']}; the second is in the index",
            fix="take the one that is not wanted away, or `agentenvs runs rm` the run and index the other",
        )
    grown = scanned.table.grown_from(known["table_bytes"], known["table_digest"])
    return "grown" if grown else "changed"


def _claims(folder: Path, run: str) -> bool:
    """Return whether the folder that is on record still holds the run."""
    try:
        return bool(scanning.scan(folder).facts["id"] == run)
    except DataError:
        return False


def _write(connection: Connection, scanned: Scanned, known: sa.RowMapping | None, what: What) -> int:
    runs = schema.runs
    if known is None:
        empty = {"episodes": 0, "successes": 0, "errors": 0, "infrastructure": 0, "reward": 0.0, "turns": 0}
        made = connection.execute(sa.insert(runs).values(**scanned.facts, **empty).returning(runs.c.no))
        number = int(made.scalar_one())
        _fill(connection, number, scanned, 0)
        return number
    number = int(known["no"])
    if what != "unchanged":
        connection.execute(sa.update(runs).where(runs.c.no == number).values(**scanned.facts))
    if what in ("grown", "changed"):
        _fill(connection, number, scanned, int(known["table_bytes"]) if what == "grown" else 0)
    return number


def _fill(connection: Connection, number: int, scanned: Scanned, start: int) -> None:
    """Write the rows of a run, from a place in its table on, and count them."""
    episodes, damaged = schema.episodes, schema.damage
    data, damage = scanned.table.data, list(scanned.damage)
    first = data[:start].count(b"\n") + 1
    if start == 0:
        connection.execute(sa.delete(episodes).where(episodes.c.run == number))
    stale = sa.or_(damaged.c.line == 0, damaged.c.line >= first)
    connection.execute(sa.delete(damaged).where(damaged.c.run == number, stale))
    known = connection.execute(sa.select(episodes.c.number).where(episodes.c.run == number)).scalars()
    seen = set(known)
    _insert(connection, ((number, *row) for row in scanning.rows(data[start:], first, seen, damage)))
    if scanned.expected is not None and not scanning.is_as_listed(scanned.table, scanned.expected):
        damage.append(Damage(scanning.TABLE, 0, "it is not what the manifest was made over"))
    if damage:
        connection.execute(sa.insert(damaged), [{"run": number, **one._asdict()} for one in damage])
    _count(connection, number)


def _insert(connection: Connection, rows: Iterator[tuple[Any, ...]]) -> None:
    # The driver takes tuples as they are; a mapping a row costs as much as reading its line.
    names = ("run", *COLUMNS)
    quote = connection.dialect.identifier_preparer.quote
    columns = ", ".join(map(quote, names))
    marks = ", ".join("?" if connection.dialect.name == "sqlite" else "%s" for _ in names)
    statement = f"INSERT INTO episodes ({columns}) VALUES ({marks})"  # noqa: S608 - names of ours
    while batch := list(islice(rows, _BATCH)):
        connection.exec_driver_sql(statement, batch)


def _count(connection: Connection, number: int) -> None:
    of = schema.episodes.c
    failed = sa.or_(of.fault.in_(["environment", "service"]), sa.and_(of.fault.is_(None), of.ending == "aborted"))
    counts = [
        sa.func.count().label("episodes"),
        sa.func.coalesce(sa.func.sum(sa.cast(of.success, sa.Integer)), 0).label("successes"),
        sa.func.count(of.error).label("errors"),
        sa.func.coalesce(sa.func.sum(sa.case((failed, 1), else_=0)), 0).label("infrastructure"),
        sa.func.coalesce(sa.func.avg(of.reward), 0.0).label("reward"),
        sa.func.coalesce(sa.func.sum(of.turns), 0).label("turns"),
        *(_known_sum(of[name]).label(name) for name in ("tokens_in", "tokens_out", "cost_microusd")),
    ]
    found = connection.execute(sa.select(*counts).where(of.run == number)).mappings().one()
    connection.execute(sa.update(schema.runs).where(schema.runs.c.no == number).values(**found))


def _known_sum(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return a sum that is null as soon as one row does not know its own."""
    return sa.case((sa.func.count(column) == sa.func.count(), sa.func.sum(column)), else_=None)
