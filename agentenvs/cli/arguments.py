"""The arguments and options that several verbs share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from agentenvs.cli import completing

Env: TypeAlias = Annotated[
    str, typer.Argument(help="Environment: household, or an id.", autocompletion=completing.envs)
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, on stdout.")]
Data: TypeAlias = Annotated[
    str | None, typer.Option("--data", help="Folder of the field's own files, e.g. ALFWorld's json_2.1.1.")
]
Option: TypeAlias = Annotated[
    list[str], typer.Option("--option", "-o", help="An option of the environment, name=value; may be repeated.")
]
Split: TypeAlias = Annotated[
    str | None, typer.Option("--split", help="Split; the default one otherwise.", autocompletion=completing.splits)
]
Records: TypeAlias = Annotated[Path, typer.Argument(help="A record file, a folder of records, or a run folder.")]
