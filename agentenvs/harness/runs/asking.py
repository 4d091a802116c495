"""Asks the index: which runs there are, what one holds, and all rows for those who analyse them elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Engine

from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError, DataError
from agentenvs.harness.runs import schema
from agentenvs.harness.runs.scanning import COLUMNS

STATES = ("complete", "ended", "open")
RUN_COLUMNS = ("id", "created", "env", "release", "policy", "model", "privileged", "options", "state")
"""What of its run stands beside each exported row, as ``run_…``."""

_AGO = re.compile(r"(\d+)([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}
_LEAST_NAME = 4
_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs; None asks nothing."""

    env: str | None = None
    """Id, or its last part in small letters without the version."""
    policy: str | None = None
    model: str | None = None
    split: str | None = None
    state: str | None = None
    tag: str | None = None
    since: str | None = None
    """A day, a moment in UTC (2026-11-30T15:00:00Z), or a time ago: 12h, 7d, 2w."""
    runs: tuple[str, ...] = ()
    """Beginnings of names, or folders; all where empty."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.state is not None and self.state not in STATES:
            raise ConfigError(f"no run is {self.state!r}", fix=f"one of {', '.join(STATES)}")


def listed(engine: Engine, wanted: Filter | None = None) -> list[dict[str, JSON]]:
    """Return the runs, the newest first, with their tags and the number of damaged places.

    Raises:
        ConfigError: A filter that makes no sense.
        DataError: A name of no run, or of several.
    """
    wanted = wanted or Filter()
    runs, damage, tags = schema.runs, schema.damage, schema.tags
    damaged = sa.select(sa.func.count()).where(damage.c.run == runs.c.no).scalar_subquery().label("damaged")
    asked = sa.select(runs, damaged).where(*_conditions(wanted)).order_by(runs.c.created.desc(), runs.c.id.desc())
    with engine.connect() as connection:
        if wanted.runs:
            asked = asked.where(runs.c.id.in_([_named(connection, name) for name in wanted.runs]))
        found = [dict(row) for row in connection.execute(asked).mappings()]
        filed: dict[int, list[str]] = {}
        for number, tag in connection.execute(sa.select(tags.c.run, tags.c.tag).order_by(tags.c.tag)):
            filed.setdefault(number, []).append(tag)
    return [{**row, "tags": filed.get(row["no"], [])} for row in found]


def one(engine: Engine, name: str) -> dict[str, JSON]:
    """Return a run with its damage and its rows by ending, kind and difficulty.

    Raises:
        DataError: A name of no run, or of several.
    """
    (run,) = listed(engine, Filter(runs=(name,)))
    damage = schema.damage.c
    with engine.connect() as connection:
        places = connection.execute(
            sa.select(damage.file, damage.line, damage.why).where(damage.run == run["no"]).order_by(damage.line)
        ).mappings()
        run["damage"] = [dict(place) for place in places]
        for name in ("ending", "kind", "difficulty"):
            run[f"by_{name}"] = _by(connection, run["no"], name)
    return run


def rows(engine: Engine, wanted: Filter | None = None) -> Iterator[list[dict[str, JSON]]]:
    """Yield the rows of all episodes of the runs, some thousands at a time, in order of run and number.

    Raises:
        ConfigError: A filter that makes no sense.
        DataError: A name of no run, or of several.
    """
    numbers = [run["no"] for run in listed(engine, wanted)]
    runs, episodes = schema.runs.c, schema.episodes.c
    named = [runs[name].label(f"run_{name}") for name in RUN_COLUMNS]
    asked = sa.select(*named, *(episodes[name] for name in COLUMNS)).select_from(
        schema.runs.join(schema.episodes, episodes.run == runs.no)
    )
    with engine.connect() as connection:
        for number in sorted(numbers):
            found = connection.execution_options(stream_results=True, yield_per=_BATCH).execute(
                asked.where(runs.no == number).order_by(episodes.number)
            )
            for batch in found.mappings().partitions():
                yield [dict(row) for row in batch]


def named(engine: Engine, name: str) -> str:
    """Return the whole name of a run.

    Args:
        engine: The index.
        name: The beginning of it, four characters or more, or the folder of the run.

    Raises:
        DataError: There is no such run, or there are several.
    """
    with engine.connect() as connection:
        return _named(connection, name)


def _named(connection: sa.Connection, name: str) -> str:
    runs = schema.runs.c
    same = runs.folder == _text(Path(name).absolute())
    begins = runs.id.startswith(name, autoescape=True) if len(name) >= _LEAST_NAME else sa.false()
    found = (
        connection.execute(sa.select(runs.id).where(sa.or_(same, begins)).order_by(runs.id).limit(2)).scalars().all()
    )
    if len(found) == 1:
        return str(found[0])
    what = "no run" if not found else "more than one run"
    fix = "agentenvs runs ls names them; agentenvs runs index FOLDER adds one"
    raise DataError(f"{what} in the index is {name!r}", fix=fix)


def _conditions(wanted: Filter) -> Sequence[sa.ColumnElement[bool]]:
    runs = schema.runs.c
    found: list[sa.ColumnElement[bool]] = []
    for name in ("policy", "model", "split", "state"):
        if (value := getattr(wanted, name)) is not None:
            found.append(runs[name] == _text(value))
    if wanted.env is not None:
        # household is agentenvs/Household-v0
        slug = f"%/{_escaped(wanted.env.lower())}-v%"
        found.append(sa.or_(runs.env == _text(wanted.env), sa.func.lower(runs.env).like(_text(slug), escape="\\")))
    if wanted.since is not None:
        found.append(runs.created >= _moment(wanted.since))
    if wanted.tag is not None:
        filed = sa.select(schema.tags.c.run).where(schema.tags.c.tag == _text(wanted.tag))
        found.append(runs.no.in_(filed))
    return found


def _moment(text: str) -> str:
    if match := _AGO.fullmatch(text.strip()):
        hours = int(match[1]) * _HOURS[match[2]]
        if hours <= 24 * 36_500:
            return f"{datetime.now(UTC) - timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}"
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is no time", why=str(error), fix="a day such as 2026-11-30, or 12h, 7d, 2w"
        ) from error
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return f"{aware:%Y-%m-%dT%H:%M:%SZ}"


def _by(connection: sa.Connection, number: int, name: str) -> list[dict[str, JSON]]:
    of = schema.episodes.c
    counts = (sa.func.count().label("episodes"), sa.func.sum(sa.cast(of.success, sa.Integer)).label("successes"))
    asked = sa.select(of[name], *counts).where(of.run == number).group_by(of[name]).order_by(of[name])
    return [dict(row) for row in connection.execute(asked).mappings()]


def _escaped(text: str) -> str:
    return re.sub(r"([%_\\])", r"\\\1", text)


def _text(value: str | Path) -> str:
    """Return what a user typed as text that every database takes; what it cannot hold matches nothing."""
    return str(value).encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
