"""``replay`` and ``rescore``: did these actions lead here, and is this outcome worth that?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agentenvs.cli import arguments, console, making
from agentenvs.core.errors import DataError, UnknownEnvError, UserError

if TYPE_CHECKING:
    from agentenvs.core.record import Record


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    shown = arguments.examples(
        "replay runs/demo/oracle", "replay runs/real --data json_2.1.1", "replay runs/mine --env ./my_world.py"
    )
    app.command("replay", epilog=shown)(replay)
    shown = arguments.examples("rescore runs/demo/oracle", "rescore runs/demo/oracle --json")
    app.command("rescore", epilog=shown)(rescore)


def replay(
    path: arguments.Records,
    env: arguments.World = None,
    data: arguments.Data = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Play records again and name the first difference of each that diverges. Exit code 1 if one does."""
    from agentenvs.core import replay as core

    _know(env)

    def check(record: Record) -> dict[str, Any]:
        report = core.replay(record, **_machine(record, data))
        found = report.divergence
        where = found and {
            "turn": found.turn,
            "field": found.field,
            "recorded": found.recorded,
            "replayed": found.replayed,
        }
        return {"turns": report.turns, "equal": report.equal, "divergence": where, "said": str(found or "")}

    _check_all(path, check, as_json, "replay")


def rescore(
    path: arguments.Records,
    env: arguments.World = None,
    data: arguments.Data = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Compute verdicts again from recorded outcomes. Exit code 1 if one differs."""
    from agentenvs.core import replay as core

    _know(env)

    def check(record: Record) -> dict[str, Any]:
        report = core.rescore(record, **_machine(record, data))
        recorded, rescored = report.recorded.to_json(), report.rescored.to_json()
        parts = [name for name in recorded if recorded[name] != rescored[name]]
        said = "; ".join(f"{name}: recorded {recorded[name]!r}, rescored {rescored[name]!r}" for name in parts)
        return {"equal": report.equal, "recorded": recorded, "rescored": rescored, "said": said}

    _check_all(path, check, as_json, "rescore")


def _check_all(path: Path, check: Callable[[Record], dict[str, Any]], as_json: bool, verb: str) -> None:
    from agentenvs.core.record import read_records

    with console.files():
        records = list(read_records(path))
    checks: list[dict[str, Any]] = []
    with console.progress(verb, "equal") as progress:
        for record in records:
            checks.append({"record": record.digest, "task": record.header["task"], **_named(check, record)})
            progress(len(checks), len(records), sum(item["equal"] for item in checks))
    bad = [item for item in checks if not item["equal"]]
    lost = _not_as_listed(path, records)
    if as_json:
        equal = len(checks) - len(bad)
        console.result({"records": len(checks), "equal": equal, "not_as_listed": lost, "checks": checks})
    else:
        typer.echo(f"{len(checks) - len(bad)} of {len(checks)} records {verb} equal")
        for item in bad:
            typer.echo(f"  {item['task']['split']}/{item['task']['index']}: {console.safe(item['said'])}")
        for said in lost:
            typer.echo(f"  {console.safe(said)}")
    raise typer.Exit(console.FAILED if bad or lost else console.OK)


def _not_as_listed(path: Path, records: list[Record]) -> list[str]:
    """Return what a run folder's table of episodes lists and its records do not hold, and the other way round."""
    table = path / "episodes.jsonl"
    if not table.is_file():
        return []
    with console.files():
        lines = table.read_text(encoding="utf-8", errors="replace").splitlines()
    try:
        listed = {row["record"]: f"{row['split']}/{row['index']}" for row in map(json.loads, lines)}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{table} is no table of episodes", why=repr(error), fix="take the run from where it was made"
        ) from error
    found = {record.digest: f"{record.ref.split}/{record.ref.index}" for record in records}
    missing = [
        f"{task}: listed in episodes.jsonl, but its record is not here"
        for key, task in listed.items()
        if key not in found
    ]
    return missing + [
        f"{task}: not the record that episodes.jsonl lists" for key, task in found.items() if key not in listed
    ]


def _named(check: Callable[[Record], dict[str, Any]], record: Record) -> dict[str, Any]:
    """Check a record; what cannot be checked is an error that names it."""
    try:
        return check(record)
    except UserError as error:
        file = "name its file or class: --env FILE.py; " if isinstance(error, UnknownEnvError) else ""
        said = f"the record of {record.ref.split}/{record.ref.index} cannot be checked: {error.what}"
        raise type(error)(said, why=error.why, fix=f"{file}{error.fix}") from error


def _know(env: str | None) -> None:
    """Make an environment known that is nowhere installed."""
    from agentenvs.core import targets

    if env is not None:
        targets.spec_of(env)


def _machine(record: Record, data: str | None) -> dict[str, Any]:
    from agentenvs.core import registry

    return making.with_data(registry.spec(record.header["env"]), {}, data)
