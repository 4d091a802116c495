"""The options of ``eval`` that say how long a run may go on, and how one goes on that came to no end."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from agentenvs.cli import making
from agentenvs.core.errors import ConfigError

if TYPE_CHECKING:
    from agentenvs.harness.budget import Budget
    from agentenvs.harness.run import RunConfig

_PANEL = "What a run may use, and going on"
_USAGE = "usage: agentenvs eval ENV --policy NAME, or agentenvs eval --resume RUN; agentenvs eval --help says more"

Resume: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Go on with the run in this folder, as it was begun: what ended is kept.",
        rich_help_panel=_PANEL,
    ),
]
RetryErrors: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--retry-errors",
        help="With --resume: play again what failed by a world, a server or an endpoint; it stays on record.",
        rich_help_panel=_PANEL,
    ),
]
BudgetTokens: TypeAlias = Annotated[
    int | None,
    typer.Option("--budget-tokens", help="Start no more episodes once so many are used.", rich_help_panel=_PANEL),
]
BudgetSeconds: TypeAlias = Annotated[
    float | None, typer.Option("--budget-seconds", help="The same, on the wall.", rich_help_panel=_PANEL)
]
BudgetDollars: TypeAlias = Annotated[
    str | None, typer.Option("--budget-dollars", help="The same, such as 2.50.", rich_help_panel=_PANEL)
]

_ALLOWED = {
    "resume", "retry_errors", "concurrency", "option", "data", "url", "budget_tokens", "budget_seconds",
    "budget_dollars", "fail_under", "dry_run", "as_json", "quiet", "no_color", "api_key_env", "backend", "address",
}  # fmt: skip
"""Parameters that do not belong to the run, so that they may be given anew."""


def budget(tokens: int | None, seconds: float | None, dollars: str | None) -> Budget:
    """Return what a run may use.

    Raises:
        ConfigError: A limit that is none.
    """
    from agentenvs.harness.budget import Budget

    try:
        return Budget(tokens, seconds, None if dollars is None else Decimal(dollars))
    except InvalidOperation as error:
        raise ConfigError(f"a budget of {dollars!r} dollars makes no sense", fix="such as 2.50") from error


def named(env: str | None, policy: str | None, retry_errors: bool) -> tuple[str, str]:
    """Return what a new run must name.

    Raises:
        ConfigError: So it is.
    """
    if env is None:
        raise ConfigError("Missing argument 'ENV'.", fix=_USAGE)
    if policy is None:
        raise ConfigError("Missing option '--policy'.", fix=_USAGE)
    if retry_errors:
        raise ConfigError("--retry-errors has no effect here", fix="name the run: --resume RUN")
    return env, policy


def config(
    ctx: typer.Context, folder: Path, option: list[str], data: str | None, url: str | None, budget: Budget
) -> RunConfig:
    """Return what the run in a folder was asked for, with what is given anew.

    Raises:
        UserError: Some subclass: there is no such run, or something was given that belongs to the run.
    """
    from agentenvs.harness import planfile, run
    from agentenvs.harness.stage import Stage

    for name in ctx.params:
        source = ctx.get_parameter_source(name)
        if name not in _ALLOWED and source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT"):
            raise ConfigError(
                f"{_spelled(name)} has no effect with --resume", why="a run goes on as it was begun", fix="leave it out"
            )
    spec = Stage(planfile.read(folder).env, url).spec
    given: dict[str, Any] = making.with_data(spec, making.parse_options(option, spec), data)
    secret = {one.name for one in spec.options if one.secret}
    if foreign := sorted(set(given) - secret):
        raise ConfigError(
            f"the option {foreign[0]!r} belongs to the run", why="it goes on as it was begun", fix="leave it out"
        )
    anew = ctx.get_parameter_source("concurrency")
    again = run.Again(
        concurrency=ctx.params["concurrency"] if anew is not None and anew.name != "DEFAULT" else None,
        machine=given,
        url=url,
        budget=budget,
        api_key_env=ctx.params.get("api_key_env"),
    )
    return run.config_of(folder, again)


def _spelled(name: str) -> str:
    return "ENV" if name == "env" else f"--{name.replace('_', '-')}"
