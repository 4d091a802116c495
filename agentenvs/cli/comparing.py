"""``compare`` and ``report``: whether runs differ, and pages over runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentenvs.cli import arguments, console

if TYPE_CHECKING:
    from agentenvs.harness.compare import Comparison

_Runs = Annotated[list[Path], typer.Argument(help="Run folders.", metavar="RUN…")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    shown = arguments.examples(
        "compare runs/a runs/b",
        "compare runs/a runs/b runs/c --html comparison.html",
        "compare runs/a runs/b --only-common --by difficulty",
        "compare runs/short runs/long --across limit --json",
    )
    app.command("compare", epilog=shown)(compare)
    shown = arguments.examples("report runs/a", "report runs/a runs/b --html both.html")
    app.command("report", epilog=shown)(report)


def compare(
    runs: _Runs,
    only_common: Annotated[
        bool, typer.Option("--only-common", help="Compare the scenarios that all played; say what that leaves out.")
    ] = False,
    across: Annotated[
        list[str], typer.Option("--across", help="An option of the environment that is part of what is compared.")
    ] = [],  # noqa: B006 - typer reads the default
    cluster: Annotated[
        str, typer.Option("--cluster", help="What was sampled: scenario, or a label such as kind.")
    ] = "scenario",
    by: Annotated[str | None, typer.Option("--by", help="Show differences by kind, difficulty or par.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write one page with plots here.")] = None,
    fail_if_worse: Annotated[
        bool, typer.Option("--fail-if-worse", help="Exit 1 where a run is worse than the first, not by chance.")
    ] = False,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Say whether runs differ: paired by scenario, with intervals, tests and what so many episodes can show.

    Refuses runs of different worlds, scenarios or scoring, and says why and what can be done. Exit code 1 only with
    --fail-if-worse.
    """
    from agentenvs.harness.compare import compare as compared
    from agentenvs.harness.compare import write_page
    from agentenvs.harness.report import read_run

    with console.files():
        found = compared([read_run(folder) for folder in runs], only_common=only_common, across=across, cluster=cluster)
        if html is not None:
            write_page(found, html)
    if as_json:
        console.result(found.to_json())
    else:
        _show(found, by)
        if html is not None:
            typer.echo(f"page: {html}")
    worse = any(pair.first == 0 and pair.whole.real and pair.whole.difference < 0 for pair in found.pairs)
    raise typer.Exit(console.FAILED if fail_if_worse and worse else console.OK)


def report(
    runs: _Runs,
    html: Annotated[
        Path | None, typer.Option("--html", help="The page; report.html in the folder of a single run otherwise.")
    ] = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Write one page over runs: rates, endings, failures, attempts, confidence, transcripts, manifests."""
    from agentenvs.core.errors import ConfigError
    from agentenvs.harness.report import measured, read_run, table, write_report

    if html is None and len(runs) > 1:
        raise ConfigError("a page over several runs needs a place", fix="give --html FILE")
    path = html or runs[0] / "report.html"
    with console.files():
        found = [read_run(folder) for folder in runs]
        write_report(runs, path)
    if as_json:
        console.result([{"run": str(run.folder), "policy": run.name, **measured(run)} for run in found])
        return
    console.out(markup=True).print(table(found))
    typer.echo(f"report: {path}")


def _show(found: Comparison, by: str | None) -> None:
    from agentenvs.core.errors import ConfigError
    from agentenvs.harness.compare import tables

    known = list(found.pairs[0].groups)
    if by is not None and by not in known:
        raise ConfigError(
            f"there is nothing to show by {by!r}",
            why="that label is not known here, or the same for all",
            fix=f"choose one of: {', '.join(known)}" if known else "leave out --by",
        )
    screen = console.out(markup=True)
    screen.print(tables.runs(found))
    screen.print()
    screen.print(tables.pairs(found))
    for pair in found.pairs if by is not None else []:
        screen.print()
        screen.print(tables.groups(pair, by or ""))
    screen.print()
    for line in tables.sentences(found):
        typer.echo(console.safe(line))
    if found.differs:
        typer.echo()
        screen.print(tables.differs(found))
    if by is None and known:
        console.message(f"Differences by {', '.join(known)}: --by {known[0]}, or all on a page: --html FILE")
