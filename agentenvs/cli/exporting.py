"""``export``: runs in the formats of others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentenvs.cli import arguments, console, making
from agentenvs.core.errors import ConfigError

if TYPE_CHECKING:
    from agentenvs.adapters.exports.writing import Exported

_SHOWN = 10
"""Episodes that are named where they could not be verified."""


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples(
        "export runs/a --to inspect --out a.eval",
        "export runs/a runs/b --to sft --only won --verify --out won.jsonl",
        "export runs/a --to atif --out trajectories",
        "export runs/a --to otel --out a.otlp.jsonl",
    )
    app.command("export", epilog=shown)(export)


def export(
    runs: Annotated[list[Path], typer.Argument(help="Run folders that have ended.", metavar="RUN...")],
    to: Annotated[
        str, typer.Option("--to", help="inspect (EvalLog), sft (chat data), atif (Harbor), otel (GenAI spans, OTLP).")
    ],
    out: Annotated[Path, typer.Option(help="File or folder, not there yet. Inspect: .eval, .json, or a folder.")],
    only: Annotated[str | None, typer.Option("--only", help="won: leave the other episodes out.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Play every record again first, and tell what it shows.")
    ] = False,
    env: arguments.World = None,
    data: arguments.Data = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Write runs as others read them: every episode once, those too that were abandoned or aborted.

    Exit code 1 where --verify was asked for and an episode does not play again as its record says.
    """
    from agentenvs.adapters.exports import writing
    from agentenvs.core import targets

    if to not in writing.FORMATS:
        raise ConfigError(f"there is no format {to!r}", fix=f"one of {', '.join(writing.FORMATS)}")
    if only not in (None, "won"):
        raise ConfigError(f"--only {only!r} means nothing here", fix="--only won")
    if env is not None:
        targets.spec_of(env)
    machine = _machine(runs, data, verify)
    with console.progress("export", "won") as progress, console.files():
        came = writing.export(runs, to, out, only_won=only == "won", verify=verify, machine=machine, progress=progress)
    _tell(came, out, verify, as_json)
    raise typer.Exit(console.FAILED if came.unverified else console.OK)


def _machine(runs: list[Path], data: str | None, verify: bool) -> dict[str, Any]:
    """Return the options of the machine that a record is played again with."""
    if data is None:
        return {}
    if not verify:
        raise ConfigError("--data has no effect here", why="nothing is played again", fix="give --verify as well")
    from agentenvs.core import registry
    from agentenvs.harness.manifest import read_manifest

    envs = {entry.env_id for run in runs for entry in read_manifest(run / "manifest.json").envs}
    if len(envs) != 1:
        raise ConfigError("the runs are of several environments", fix="export each by itself, with its --data")
    return making.with_data(registry.spec(envs.pop()), {}, data)


def _tell(came: Exported, out: Path, verify: bool, as_json: bool) -> None:
    if as_json:
        console.result({"out": str(out), **came.to_json()})
        return
    endings = ", ".join(f"{count} {ending}" for ending, count in sorted(came.endings.items()))
    typer.echo(f"{came.episodes} episode(s) in {out}" + (f": {endings}" if endings else ""))
    if not verify:
        return
    typer.echo(f"  {came.verified} played again, each as its record says")
    if came.unverified:
        typer.echo(f"  {came.unverified} not proved, which say so:")
    for name, why in list(came.not_verified.items())[:_SHOWN]:
        typer.echo(f"    {name}: {console.safe(why)}")
