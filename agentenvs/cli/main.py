"""``agentenvs``: the entry point, and the options before the verb."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from agentenvs._version import __version__
from agentenvs.cli import checking, console, doctoring, evaluating, listing, playing
from agentenvs.core.errors import EpisodeError, UserError

app = typer.Typer(
    name="agentenvs",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "AGENTENVS"},
    help="Environments in which language agents are trained and judged.\n\n"
    "Every option can be set by an environment variable: AGENTENVS_EVAL_SPLIT for `eval --split`, and so on.",
    epilog=console.EXIT_CODES,
)

for _verbs in (listing, playing, evaluating, checking, doctoring):
    _verbs.add_to(app)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"agentenvs {__version__}")
        raise typer.Exit


@app.callback()
def options(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no messages.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour (also NO_COLOR).")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Set what holds for every verb."""
    console.configure(quiet, no_color)


def main() -> None:
    """Run the command line; a user's mistake gets a message, a bug a traceback."""
    as_json = "--json" in sys.argv
    try:
        app()
    except (UserError, EpisodeError) as error:
        console.fail(error, as_json)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(console.OK)
    except KeyboardInterrupt:
        sys.exit(console.INTERRUPTED)
    except Exception:  # noqa: BLE001 - boundary of the process: whatever else comes up is a bug, shown whole
        traceback.print_exc()
        typer.echo("This is a bug of agentenvs: please report it with the traceback above.", err=True)
        sys.exit(console.FAILED)


if __name__ == "__main__":
    main()
