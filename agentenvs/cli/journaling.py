"""``journal``: what a server's journal holds, what becomes of it, and how it is kept small."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, TypeAlias

import typer

from agentenvs.cli import arguments, console
from agentenvs.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from agentenvs_servers.journal.looking import Line
    from agentenvs_servers.journal.opening import Opened

Journal: TypeAlias = Annotated[
    str, typer.Argument(help="The file, or the postgresql:// URL, that serve was given.", metavar="JOURNAL")
]

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")

_SMALLER = 90


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    verbs = typer.Typer(
        help="Look into a journal, take out what it holds, or make it smaller. Its server may be running.",
        epilog=arguments.examples("journal ls journal.db", "journal export journal.db --records records"),
    )
    verbs.command("ls", epilog=arguments.examples("journal ls journal.db", "journal ls journal.db --state open"))(ls)
    shown = arguments.examples("journal export journal.db > all.jsonl", "journal export journal.db --records records")
    verbs.command("export", epilog=shown)(export)
    shown = arguments.examples("journal prune journal.db", "journal prune journal.db --older-than 7d --vacuum")
    verbs.command("prune", epilog=shown)(prune)
    app.add_typer(verbs, name="journal")


def ls(
    journal: Journal,
    state: Annotated[str | None, typer.Option(help="Only those that are open, closed or expired.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only those of this token's name.")] = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """List the sessions. Their names stand nowhere: each is shown by the digest of it."""
    from agentenvs_servers.journal import looking
    from agentenvs_servers.journal.soundness import STATES

    if state is not None and state not in STATES:
        raise ConfigError(f"no session is {state!r}", fix=f"--state {' or '.join(STATES)}")
    with _visited(journal) as opened:
        lines = looking.lines(opened, state, tenant)
    if as_json:
        console.result([line._asdict() for line in lines])
        return
    _show(lines)
    console.message(f"{len(lines)} session(s)")


def _show(lines: list[Line]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    if not lines:
        return
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in ("session", "tenant", "env", "task", "state", "episode", "turn", "age", "idle", "kept"):
        table.add_column(heading, overflow="fold", no_wrap=heading not in ("tenant", "env", "task"))
    for line in lines:
        turn = "-" if line.turn is None else str(line.turn)
        told = (f"{line.split}/{line.number}", line.state, str(line.episodes), turn, _time(line.age), _time(line.idle))
        env = line.env.rpartition("/")[2]
        table.add_row(*map(console.safe, (line.session, line.tenant or "-", env, *told, line.durability)))
    console.out().print(table)


def export(
    journal: Journal,
    records: Annotated[
        Path | None, typer.Option(help="Write the whole records of ended episodes into this folder, one file each.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write here instead of stdout.")] = None,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Write sessions, episodes and turns as JSON lines, without a name or key of any.

    The records are the operator's copy: those of sealed scenarios are whole, with all that was hidden.
    """
    counts: dict[str, int] = {"session": 0, "episode": 0, "turn": 0, "record": 0}
    with _visited(journal) as opened, console.files(), _to(out) as stream:
        from agentenvs_servers.journal import looking

        if records is not None:
            records.mkdir(mode=0o700, parents=True, exist_ok=True)
        for form, record in looking.export(opened):
            stream.write(json.dumps(form, ensure_ascii=True, sort_keys=True, separators=(",", ":")) + "\n")
            counts[form["kind"]] += 1
            if record is not None and records is not None:
                _keep(records / f"{form['episode']}.jsonl", record)
                counts["record"] += 1
    console.message(", ".join(f"{count} {kind}(s)" for kind, count in counts.items() if kind != "record" or records))


def _keep(file: Path, record: bytes) -> None:
    with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as stream:
        stream.write(record)


@contextmanager
def _to(out: Path | None) -> Iterator[TextIO]:
    if out is None:
        yield typer.get_text_stream("stdout")
        return
    with os.fdopen(os.open(out, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
        yield stream


def prune(
    journal: Journal,
    older_than: Annotated[
        str, typer.Option(help="Forget sessions that are over for this long: 90, 30m, 12h, 7d, 2w.")
    ] = "1h",
    expired_now: Annotated[
        bool,
        typer.Option(
            "--expired-now",
            help="First let sessions expire whose time is up by more than a minute, as their server would have; "
            "their episodes are aborted, without a verdict.",
        ),
    ] = False,
    vacuum: Annotated[
        bool, typer.Option("--vacuum", help="Give the room back; turns of a file's server wait meanwhile.")
    ] = False,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Forget sessions that are over, with their records. Open ones stay."""
    from agentenvs_servers.journal import pruning

    seconds = _seconds(older_than)
    with _visited(journal, writes=True) as opened:
        pruned = pruning.prune(opened, seconds, expire=expired_now)
        if vacuum:
            pruning.vacuum(opened)
    if as_json:
        console.result(pruned._asdict())
    else:
        console.message(f"{pruned.expired} session(s) expired, {pruned.forgotten} forgotten")


@contextmanager
def _visited(journal: str, *, writes: bool = False) -> Iterator[Opened]:
    """Give a journal that is there.

    Raises:
        DataError: It cannot be used, or is in use for too long.
    """
    from sqlalchemy.exc import DBAPIError

    from agentenvs.core.database import shown
    from agentenvs_servers.journal.opening import visit

    opened = visit(journal, writes=writes)
    try:
        yield opened
    except DBAPIError as error:
        why = str(error.orig).strip().partition("\n")[0]
        raise DataError(f"the journal {shown(journal)} cannot be used", why=why, fix="try again later") from error
    finally:
        opened.engine.dispose()


def _seconds(text: str) -> float:
    """Return the seconds of a duration.

    Raises:
        ConfigError: It is none.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{text!r} is no time", fix="write 90, 30m, 12h, 7d or 2w")
    return float(found[1]) * _UNITS[found[2] or "s"]


def _time(seconds: float) -> str:
    """Return a time in its largest fitting unit."""
    for unit, size in (("s", 1), ("m", 60), ("h", 3_600)):
        if seconds < _SMALLER * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds / _UNITS['d']:.0f}d"
