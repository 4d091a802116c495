"""The arguments and options that several verbs share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from agentenvs.cli import completing, console

Env: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="Environment: household, an id, FILE.py, FILE.py:CLASS or MODULE:CLASS.",
        metavar="ENV",
        autocompletion=completing.envs,
    ),
]
Json: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--json",
        envvar="AGENTENVS_JSON",
        callback=console.be_json,
        help="Print the result as JSON, and nothing else, on stdout.",
    ),
]
Quiet: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", envvar="AGENTENVS_QUIET", callback=console.be_quiet, help="No progress and no messages."
    ),
]
NoColor: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--no-color", envvar="AGENTENVS_NO_COLOR", callback=console.be_colorless, help="No colour (also NO_COLOR)."
    ),
]
Data: TypeAlias = Annotated[
    str | None, typer.Option("--data", help="Folder of the field's own files, e.g. ALFWorld's json_2.1.1.")
]
Option: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--option",
        "-o",
        help="An option of the environment, name=value; may be repeated.",
        autocompletion=completing.options,
    ),
]
Split: TypeAlias = Annotated[
    str | None, typer.Option("--split", help="Split; the default one otherwise.", autocompletion=completing.splits)
]
Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url", help="A server that plays it, http://HOST:PORT; its token is read from AGENTENVS_TOKEN.", metavar="URL"
    ),
]
World: TypeAlias = Annotated[
    str | None,
    typer.Option("--env", help="Where the environment comes from: FILE.py or MODULE:CLASS.", metavar="ENV"),
]
Records: TypeAlias = Annotated[
    Path, typer.Argument(help="A record file, a folder of records, or a run folder.", metavar="PATH")
]


def examples(*lines: str) -> str:
    """Return the end of a help text: command lines, as they are typed."""
    return "\b\nExamples:\n" + "\n".join(f"  agentenvs {line}" for line in lines)
