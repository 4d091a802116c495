"""What every verb prints with: results on stdout, messages on stderr, and one way to tell of a mistake.

Words of agents and worlds are untrusted: they reach a terminal only through :func:`safe`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from agentenvs.core.errors import AgentEnvsError, ServiceError

if TYPE_CHECKING:
    from rich.console import Console

    from agentenvs.core.environment import Environment
    from agentenvs.harness.run import Progress

OK, FAILED, USAGE, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130

EXIT_CODES = """
Exit codes: 0 clean · 1 not clean, or a check failed · 2 a mistake in what was asked · 3 a service cannot be
reached · 130 interrupted.
"""


class _State:
    quiet = False
    color = True


def configure(quiet: bool, no_color: bool) -> None:
    """Set what the options before the verb ask for."""
    _State.quiet = quiet
    _State.color = not no_color and "NO_COLOR" not in os.environ


def out() -> Console:
    """Return the console of results."""
    from rich.console import Console

    return Console(no_color=not _State.color, highlight=False)


def message(text: str) -> None:
    """Tell the person something that is no result."""
    if not _State.quiet:
        typer.echo(text, err=True)


def result(value: Any) -> None:
    """Print a result as JSON, the only thing on stdout."""
    typer.echo(json.dumps(value, ensure_ascii=True, indent=2, default=str))


def safe(text: str) -> str:
    """Return text without control sequences."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def fail(error: AgentEnvsError, as_json: bool) -> NoReturn:
    """Tell of a mistake without a traceback and leave."""
    if as_json:
        result({"error": error.to_json()})
    typer.echo(safe(str(error)), err=True)
    sys.exit(UNREACHABLE if isinstance(error, ServiceError) else USAGE)


def parse_options(pairs: list[str], env: str) -> dict[str, Any]:
    """Read ``name=value`` options by the types the environment declares.

    Raises:
        OptionError: No ``=``, an unknown name, or a value of another type.
    """
    from agentenvs.core import registry
    from agentenvs.core.errors import OptionError

    types = {option.name: option.type for option in registry.spec(env).options}
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise OptionError(f"{pair!r} is no option", fix="write name=value")
        options[name] = _typed(name, value, types.get(name, "str"))
    return options


def _typed(name: str, value: str, kind: str) -> Any:
    from agentenvs.core.errors import OptionError

    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        if kind == "bool":
            return words[value.lower()]
        return int(value) if kind == "int" else float(value) if kind == "float" else value
    except (KeyError, ValueError) as error:
        raise OptionError(f"option {name!r} does not take {value!r}", why=f"it is a {kind}") from error


def make_env(env: str, pairs: list[str], data: str | None, **more: Any) -> Environment:
    """Make an environment from what a command line says."""
    from agentenvs.core import registry

    return registry.make(env, **with_data(env, parse_options(pairs, env), data), **more)


def with_data(env: str, options: dict[str, Any], data: str | None) -> dict[str, Any]:
    """Add ``--data`` to options.

    Raises:
        OptionError: The environment reads no data.
    """
    from agentenvs.core import registry
    from agentenvs.core.errors import OptionError

    if data is None:
        return options
    if all(option.name != "data" for option in registry.spec(env).options):
        raise OptionError(f"{env} reads no data", fix="leave out --data")
    return {**options, "data": data}


@contextmanager
def progress(label: str) -> Iterator[Progress]:
    """Show a progress bar on stderr where that is a terminal, at most four times a second; a line now and then else."""
    if _State.quiet:
        yield lambda done, total, won: None
        return
    if not sys.stderr.isatty():
        yield _plain_progress(label)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[won]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True, no_color=not _State.color),
        refresh_per_second=4,
    )
    with bar:
        task = bar.add_task(label, total=None, won="")
        yield lambda done, total, won: bar.update(task, completed=done, total=total, won=f"{won} won")


def _plain_progress(label: str) -> Progress:
    def show(done: int, total: int, won: int) -> None:
        if done == total or done % max(total // 10, 1) == 0:
            typer.echo(f"{label}: {done}/{total}, {won} won", err=True)

    return show
