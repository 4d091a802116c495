"""``replay`` and ``rescore``: did these actions lead here, and is this outcome worth that?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agentenvs.cli import arguments, console

if TYPE_CHECKING:
    from agentenvs.core.record import Record


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("replay", epilog="Example: agentenvs replay runs/demo/oracle")(replay)
    app.command("rescore", epilog="Example: agentenvs rescore runs/demo/oracle --json")(rescore)


def replay(path: arguments.Records, data: arguments.Data = None, as_json: arguments.Json = False) -> None:
    """Play records again and name the first difference of each that diverges. Exit code 1 if one does."""
    from agentenvs.core import replay as core

    def check(record: Record) -> dict[str, Any]:
        report = core.replay(record, **_machine(record, data))
        found = report.divergence
        return {
            "turns": report.turns,
            "equal": report.equal,
            "divergence": None
            if found is None
            else {
                "turn": found.turn,
                "field": found.field,
                "recorded": found.recorded,
                "replayed": found.replayed,
            },
            "said": "" if found is None else str(found),
        }

    _check_all(path, check, as_json, "replay equal")


def rescore(path: arguments.Records, data: arguments.Data = None, as_json: arguments.Json = False) -> None:
    """Compute verdicts again from recorded outcomes. Exit code 1 if one differs."""
    from agentenvs.core import replay as core

    def check(record: Record) -> dict[str, Any]:
        report = core.rescore(record, **_machine(record, data))
        return {
            "equal": report.equal,
            "recorded": report.recorded.to_json(),
            "rescored": report.rescored.to_json(),
            "said": ""
            if report.equal
            else f"recorded reward {report.recorded.reward:g}, rescored {report.rescored.reward:g}",
        }

    _check_all(path, check, as_json, "rescore equal")


def _check_all(path: Path, check: Any, as_json: bool, what: str) -> None:
    from agentenvs.core.record import read_records

    records = list(read_records(path))
    checks: list[dict[str, Any]] = []
    with console.progress(what.split()[0]) as progress:
        for record in records:
            checks.append({"record": record.digest, "task": record.header["task"], **check(record)})
            progress(len(checks), len(records), sum(item["equal"] for item in checks))
    bad = [item for item in checks if not item["equal"]]
    if as_json:
        console.result({"records": len(checks), "equal": len(checks) - len(bad), "checks": checks})
    else:
        typer.echo(f"{len(checks) - len(bad)} of {len(checks)} records {what}")
        for item in bad:
            task = item["task"]
            typer.echo(f"  {task['split']}/{task['index']}: {console.safe(item['said'])}")
    raise typer.Exit(console.FAILED if bad else console.OK)


def _machine(record: Record, data: str | None) -> dict[str, Any]:
    return console.with_data(record.header["env"], {}, data)
