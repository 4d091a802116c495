"""``agentenvs``: the entry point, the options before the verb, and what becomes of an error."""

from __future__ import annotations

import io
import sys
import traceback
from typing import Annotated, cast

import typer

from agentenvs._version import __version__
from agentenvs.cli import (
    arguments,
    auditing,
    boarding,
    calibrating,
    checking,
    collecting,
    comparing,
    conforming,
    console,
    deploying,
    doctoring,
    evaluating,
    exporting,
    indexing,
    journaling,
    listing,
    playing,
    preparing,
    serving,
    starting,
    topping,
    training,
    viewing,
    wrapping,
)
from agentenvs.core.errors import ConfigError, EpisodeError, UserError

app = typer.Typer(
    name="agentenvs",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "AGENTENVS"},
    help="Environments in which language agents are trained and judged.\n\n"
    "Every option can be set by an environment variable: AGENTENVS_EVAL_SPLIT for `eval --split`, and so on; "
    "AGENTENVS_JSON, AGENTENVS_QUIET and AGENTENVS_NO_COLOR hold for every verb.\n\n"
    + arguments.examples(
        "list", "play household", "eval household --policy expert --out runs/expert", "replay runs/expert"
    ),
    epilog=console.EXIT_CODES,
)

_GROUPS = (
    listing,
    playing,
    evaluating,
    comparing,
    collecting,
    exporting,
    indexing,
    viewing,
    training,
    checking,
    calibrating,
    conforming,
    auditing,
    boarding,
    preparing,
    serving,
    topping,
    deploying,
    starting,
    wrapping,
    doctoring,
    journaling,
)
for _verbs in _GROUPS:
    _verbs.add_to(app)

# What is raised for a command line that cannot be parsed; typer has no public name for it.
_BadSpelling = cast("type[Exception]", typer.BadParameter.__mro__[1])


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"agentenvs {__version__}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, allow_from_autoenv=False, help="Print the version."
        ),
    ] = False,
) -> None:
    """Show the help where no verb is given."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(console.USAGE)


def main() -> None:
    """Run the command line; a user's mistake gets a message, a bug a traceback."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # No spelling of a character, in or out, is worth a crash.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    console.reset(as_json="--json" in sys.argv)
    sys.exit(_run())


def _run() -> int:
    try:
        return app(prog_name="agentenvs", standalone_mode=False) or console.OK
    except (UserError, EpisodeError) as error:
        return console.fail(error)
    except (typer.Abort, KeyboardInterrupt):
        return console.INTERRUPTED
    except _BadSpelling as error:
        return console.fail(_usage(error))
    except Exception as error:  # noqa: BLE001 - boundary of the process: whatever else comes up is a bug, shown whole
        traceback.print_exc()
        typer.echo("This is a bug of agentenvs: please report it with the traceback above.", err=True)
        console.tell_bug(error)
        return console.FAILED


def _usage(error: Exception) -> ConfigError:
    """Return a command line that cannot be parsed as an error like any other."""
    ctx: typer.Context | None = getattr(error, "ctx", None)
    said = getattr(error, "format_message", error.__str__)()
    if ctx is None:
        return ConfigError(said, fix="agentenvs --help")
    usage = " ".join(ctx.get_usage().split())
    return ConfigError(said, fix=f"{usage[0].lower()}{usage[1:]}; {ctx.command_path} --help says more")


if __name__ == "__main__":
    main()
