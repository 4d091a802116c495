"""``audit``: can what an environment pays be had without doing what it asks?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentenvs.cli import arguments, console, making

if TYPE_CHECKING:
    from agentenvs.harness.audit import Report


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples(
        "audit household --quick",
        "audit ./my_world.py --html audit.html",
        "audit my_worlds.garden:Garden --json",
        "audit http://127.0.0.1:8000 --env household --episodes 8",
    )
    app.command("audit", epilog=shown)(audit)


def audit(
    target: Annotated[str, typer.Argument(help="An id, FILE.py, FILE.py:CLASS, MODULE:CLASS, or a URL.")],
    env: Annotated[str | None, typer.Option("--env", help="Which environment of a server that has several.")] = None,
    split: arguments.Split = None,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: arguments.Data = None,
    quick: Annotated[bool, typer.Option("--quick", help="Try less of everything.")] = False,
    episodes: Annotated[
        int | None, typer.Option("--episodes", "-n", help="Tasks of the main split that each hack is played on.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of all draws: the same gives the same table.")] = 0,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the table as a page.")] = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Try to earn from an environment what is not deserved. Exit code 1 if something does."""
    from agentenvs.harness.audit import audit_env
    from agentenvs.harness.audit.page import page
    from agentenvs.harness.check.run import spec_of

    with console.progress(f"audit {target}", "breaches") as progress, console.own_output():
        spec = spec_of(target, env)
        report = audit_env(
            target,
            quick=quick,
            seed=seed,
            episodes=episodes,
            options=making.with_data(spec, making.parse_options(option, spec), data),
            split=split,
            env=env,
            progress=progress,
        )
    if as_json:
        console.result(report.to_json())
    else:
        _show(report)
    if html is not None:
        with console.files():
            html.write_text(page(report), encoding="utf-8", errors="replace")
    raise typer.Exit(console.OK if report.passed else console.FAILED)


def _show(report: Report) -> None:
    from agentenvs.harness.audit.report import table

    console.out().print(table(report))
    typer.echo(f"\n{console.safe(report.summary())}")
    for line in report.words():
        typer.echo(console.safe(line))
    if report.quick and report.passed:
        console.message("That was the quick size: leave out --quick before anything depends on it.")
