"""``check``: does an environment hold what it declares, and what is lost by what it does not?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentenvs.cli import arguments, console, making
from agentenvs.core.errors import ConfigError, UserError

if TYPE_CHECKING:
    from agentenvs.harness.check import Report
    from agentenvs.harness.check.openenv import Grade
    from agentenvs.harness.check.subject import Subject


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples(
        "check household",
        "check household --quick -o profile=native",
        "check ./my_world.py",
        "check my_worlds.garden:Garden",
        "check http://127.0.0.1:8000 --env household --json",
        "check my_world:0.1.0",
        "check household --openenv --out package",
    )
    app.command("check", epilog=shown)(check)


def check(
    target: Annotated[
        str, typer.Argument(help="An id, FILE.py, FILE.py:CLASS, MODULE:CLASS, a URL, or a Docker image.")
    ],
    env: Annotated[str | None, typer.Option("--env", help="Which environment of a server that has several.")] = None,
    split: arguments.Split = None,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: arguments.Data = None,
    quick: Annotated[bool, typer.Option("--quick", help="Try less of everything: a few seconds.")] = False,
    openenv: Annotated[bool, typer.Option("--openenv", help="Judge it by the names of OpenEnv's checks too.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="With --openenv: where to write openenv.yaml and its plan.")
    ] = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Check an environment against the contract, and say what it may be used for. Exit code 1 if a check fails."""
    from agentenvs.harness.check import check_env
    from agentenvs.harness.check.image import check_image
    from agentenvs.harness.check.run import spec_of, subject_of

    grades: list[Grade] = []
    if out is not None and not openenv:
        raise ConfigError("--out says where --openenv writes", fix="give both")
    with console.progress(f"check {target}", "failed") as progress, console.own_output():
        if _is_image(target):
            if openenv:
                raise ConfigError("an image is not judged by OpenEnv's names here", fix="openenv validate does that")
            _refuse_options(target, bool(option) or data is not None)
            report = check_image(target, quick=quick, split=split, env=env, progress=progress)
        else:
            spec = spec_of(target, env)
            options = making.with_data(spec, making.parse_options(option, spec), data)
            report = check_env(
                target, quick=quick, options=options, split=split, env=env, ahead=True, progress=progress
            )
            if openenv:
                grades = _judged(report, out, subject_of(target, options, quick=quick, split=split, env=env))
    if as_json:
        told = {"openenv": [grade.to_json() for grade in grades]} if openenv else {}
        console.result(report.to_json() | told)
    else:
        _show(report)
        _show_grades(grades)
    failed = not report.passed or any(grade.status == "fail" for grade in grades)
    raise typer.Exit(console.FAILED if failed else console.OK)


def _judged(report: Report, out: Path | None, subject: Subject) -> list[Grade]:
    """Return the grades by OpenEnv's names; write its files where a folder is given."""
    from agentenvs.harness.check import openenv, openenv_package

    try:
        grades = openenv.judge(subject, report)
        if out is not None:
            with console.files():
                openenv_package.write(subject, out)
        return grades
    finally:
        subject.end()


def _show_grades(grades: list[Grade]) -> None:
    if grades:
        typer.echo("\nBy the names of OpenEnv's checks:")
    for grade in grades:
        typer.echo(console.safe(f"  {grade.status}  {grade.check_id:34} {grade.evidence}"))


def _is_image(target: str) -> bool:
    """Whether a target is an image, and nothing else that has such a name: an id, a file, a class go first."""
    from agentenvs.harness.check import image
    from agentenvs.harness.check.run import is_url, spec_of

    if is_url(target):
        return False
    if not target.startswith(image.PREFIX):
        try:
            spec_of(target)
        except UserError:
            return image.is_image(target)
        return False
    return True


def _refuse_options(target: str, given: bool) -> None:
    if given:
        raise ConfigError(
            f"options of {target} cannot be given here",
            why="an image is checked as it is",
            fix="set them in it: ENV AGENTENVS_SERVE_OPTION=name=value",
        )


def _show(report: Report) -> None:
    from agentenvs.harness.check.report import table

    console.out().print(table(report))
    counts = report.counts
    typer.echo(f"\n{counts['passed']} checks passed, {counts['failed']} failed, {counts['skipped']} skipped")
    for line in [*report.details(), "", *report.words()]:
        typer.echo(console.safe(line))
    if report.quick and report.passed:
        console.message("That was the quick check: leave out --quick before anything depends on it.")
