"""What every verb prints with: results on stdout, messages on stderr, and one way to tell of a mistake.

Words of agents and worlds are untrusted: they reach a terminal only through :func:`safe`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

import typer

from agentenvs.core.errors import AgentEnvsError, DataError, ServiceError

if TYPE_CHECKING:
    from rich.console import Console

    from agentenvs.harness.run import Progress

OK, FAILED, USAGE, UNREACHABLE, BUDGET, INTERRUPTED = 0, 1, 2, 3, 4, 130

EXIT_CODES = """\b
Exit codes:
  0    clean
  1    the run was not clean, or a check failed
  2    a mistake in what was asked
  3    a service cannot be reached
  4    a budget ended the run
  130  interrupted
"""

_SECONDS_BETWEEN_LINES = 2.0


class _State:
    quiet = False
    color = True
    json = False


def reset(as_json: bool = False) -> None:
    """Forget what an earlier command line asked for.

    Args:
        as_json: Whether this one asks for JSON, as far as is known before it is parsed.
    """
    _State.quiet, _State.color, _State.json = False, "NO_COLOR" not in os.environ, as_json


def be_quiet(asked: bool) -> bool:
    """Leave out progress and messages; for the option of that name, before the verb or after it."""
    _State.quiet = _State.quiet or asked
    return asked


def is_quiet() -> bool:
    """Whether progress and messages are to be left out."""
    return _State.quiet


def be_colorless(asked: bool) -> bool:
    """Leave out colour; for the option of that name, before the verb or after it."""
    _State.color = _State.color and not asked
    return asked


def be_json(asked: bool) -> bool:
    """Tell of mistakes in JSON too; for the option of that name."""
    _State.json = _State.json or asked
    return asked


def out(markup: bool = False) -> Console:
    """Return the console of results.

    Args:
        markup: Whether ``[bold]`` is markup; True only for what was escaped.
    """
    from rich.console import Console

    return Console(no_color=not _State.color, highlight=False, markup=markup, emoji=False)


def message(text: str) -> None:
    """Tell the person something that is no result."""
    if not _State.quiet:
        typer.echo(safe(text), err=True)


def overwrite(text: str) -> None:
    """Tell the person how something stands, over what was told before; for a terminal."""
    if not _State.quiet:
        typer.echo(f"\r\x1b[K{safe(text)}", err=True, nl=False)


def result(value: Any) -> None:
    """Print a result as JSON, the only thing on stdout."""
    typer.echo(json.dumps(value, ensure_ascii=True, indent=2, default=str))


def safe(text: str) -> str:
    """Return text without control sequences."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def fail(error: AgentEnvsError) -> int:
    """Tell of a mistake without a traceback and return the exit code."""
    if _State.json:
        result({"error": error.to_json()})
    typer.echo(safe(str(error)), err=True)
    return UNREACHABLE if isinstance(error, ServiceError) else USAGE


def tell_bug(error: Exception) -> None:
    """Say in JSON, where that was asked for, that something broke; the traceback is on stderr."""
    if _State.json:
        result({"error": {"code": "AE000", "what": repr(error), "why": "a bug", "fix": "report it"}})


@contextmanager
def files() -> Iterator[None]:
    """Turn what the operating system refuses into a message.

    Raises:
        DataError: A file cannot be read or written, or is no text where text is wanted.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        where = "a file" if error.filename is None else error.filename
        raise DataError(
            f"{where} cannot be read or written", why=error.strerror or str(error), fix="give another path"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError("a file that should be text is none", why=str(error), fix="give a UTF-8 file") from error


@contextmanager
def own_output() -> Iterator[None]:
    """Keep what players print off stdout, which is for results: it goes to stderr, that of C code and children too."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them is closed: nothing to keep clean
        kept = -1
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept >= 0:
            os.dup2(kept, 1)
            os.close(kept)


@contextmanager
def progress(label: str, counted: str) -> Iterator[Progress]:
    """Show progress on stderr: a bar where that is a terminal, at most four times a second; else a line now and then.

    Args:
        label: What is going on.
        counted: What the third number counts, e.g. ``won``.
    """
    if _State.quiet:
        yield lambda done, total, number: None
        return
    if not sys.stderr.isatty():
        yield _plain_progress(label, counted)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[number]}", markup=False),
        TimeRemainingColumn(),
        console=Console(stderr=True, no_color=not _State.color),
        refresh_per_second=4,
    )
    with bar:
        task = bar.add_task(label, total=None, number="")
        yield lambda done, total, number: bar.update(task, completed=done, total=total, number=f"{number} {counted}")


def _plain_progress(label: str, counted: str) -> Progress:
    last = time.monotonic()

    def show(done: int, total: int, number: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= _SECONDS_BETWEEN_LINES:
            last = now
            typer.echo(f"{label}: {done}/{total}, {number} {counted}", err=True)

    return show
