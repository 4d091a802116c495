"""``prepare``: makes ahead, into a folder or the cache, what an environment would make on first use."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentenvs.cli import arguments, completing, console, making

if TYPE_CHECKING:
    from agentenvs.core.prepared import Item, Progress
    from agentenvs.core.spec import EnvSpec

_SECONDS_BETWEEN_LINES = 2.0


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples("prepare household", "prepare household --out prepared --verify")
    app.command("prepare", epilog=shown)(prepare)


def prepare(
    env: arguments.Env,
    out: Annotated[
        Path | None, typer.Option(help="Folder to make it in, to be mounted or copied; this user's cache otherwise.")
    ] = None,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: arguments.Data = None,
    split: Annotated[
        list[str],
        typer.Option(
            help="Split to prepare; may be repeated. All finite ones otherwise.", autocompletion=completing.splits
        ),
    ] = [],  # noqa: B006 - typer reads the default
    verify: Annotated[
        bool, typer.Option("--verify", help="Make nothing: read every byte of what is there and compare digests.")
    ] = False,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Make indexes, universes and catalogues once, for every process and machine that plays with them."""
    from agentenvs.core import prepared, registry, targets

    spec = targets.spec_of(env)
    options = spec.resolve(making.with_data(spec, making.parse_options(option, spec), data))
    items = list(registry.load(spec.entry_point).preparations(options, tuple(split)))
    root = out or prepared.cache_folder()
    folders = _verified(spec, items, root) if verify else _made(spec, items, root)
    rows = [(item.name, str(folder), prepared.size(folder)) for item, folder in zip(items, folders, strict=True)]
    if as_json:
        console.result(
            {"env": spec.id, "items": [dict(zip(("name", "folder", "bytes"), row, strict=True)) for row in rows]}
        )
        return
    for name, folder, size in rows:
        console.out().print(f"{name}  {size / 1e6:.1f} MB  {console.safe(folder)}", soft_wrap=True)
    console.message(_advice(spec, bool(items), out, verify))


def _advice(spec: EnvSpec, needed: bool, out: Path | None, verified: bool) -> str:
    if not needed:
        return f"{spec.id} needs no preparation."
    if verified:
        return "Every byte is what was written."
    where = "" if out is None else f" -o prepared={out}"
    return f"Play with it: agentenvs play {spec.slug}{where}, with the same options"


def _made(spec: EnvSpec, items: list[Item], root: Path) -> list[Path]:
    from agentenvs.core import prepared

    with _progress() as show:
        return [prepared.make(spec, item, root, show, verified=True) for item in items]


def _verified(spec: EnvSpec, items: list[Item], root: Path) -> list[Path]:
    from agentenvs.core import prepared

    return [prepared.verify(spec, item, root) for item in items]


@contextmanager
def _progress() -> Iterator[Progress]:
    """Show progress on stderr: a bar where that is a terminal, else a line now and then."""
    if console.is_quiet():
        yield lambda what, done, total: None
        return
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as bar:
        task = bar.add_task("preparing", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _lines() -> Progress:
    last = time.monotonic()

    def show(what: str, done: int, total: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= _SECONDS_BETWEEN_LINES:
            last = now
            typer.echo(f"{what}: {done}{'' if total is None else f'/{total}'}", err=True)

    return show
