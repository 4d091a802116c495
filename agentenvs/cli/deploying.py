"""``up``, ``down``, ``ps``, ``logs``: worlds in containers on this machine's Docker engine."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentenvs.cli import arguments, completing, console

if TYPE_CHECKING:
    from docker import DockerClient

    from agentenvs.deploy import Running

TOKEN_VARIABLE = "AGENTENVS_TOKEN"

_Worlds = Annotated[
    list[str] | None,
    typer.Argument(metavar="WORLD...", help="Worlds; all that are up otherwise.", autocompletion=completing.envs),
]


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    shown = ("up household", "up household webshop --memory 2g", "up my_world --image my_world:0.1.0 --port 9000")
    app.command("up", epilog=arguments.examples(*shown))(up)
    app.command("down", epilog=arguments.examples("down", "down household --volumes"))(down)
    app.command("ps", epilog=arguments.examples("ps", "ps --json"))(ps)
    app.command("logs", epilog=arguments.examples("logs household", "logs household --follow"))(logs)


def up(
    worlds: Annotated[
        list[str],
        typer.Argument(metavar="WORLD...", help="Worlds, each in a container.", autocompletion=completing.envs),
    ],
    image: Annotated[str | None, typer.Option(help="Image; agentenvs:VERSION otherwise.", show_default=False)] = None,
    port: Annotated[int | None, typer.Option(help="Port of this machine, for one world; a free one otherwise.")] = None,
    memory: Annotated[str, typer.Option(help="What each may use at most.")] = "1g",
    cpus: Annotated[float, typer.Option(help="Processors each may use.")] = 1.0,
    network: Annotated[str | None, typer.Option(help="Network of the engine; its ordinary bridge otherwise.")] = None,
    wait: Annotated[float, typer.Option(help="Seconds in which each has to be ready.", min=0.0)] = 60.0,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: Annotated[Path | None, typer.Option(help="Folder of the field's own files; seen, never written.")] = None,
    prepared: Annotated[Path | None, typer.Option(help="Folder that `agentenvs prepare` has written.")] = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Start worlds in containers, wait until they are ready, and say where they are and by which token.

    The token is that of $AGENTENVS_TOKEN, or a fresh one. Sessions are kept in a volume: they go on after a crash, and
    after down and up. A world that is up already stays as it is.
    """
    from agentenvs import deploy
    from agentenvs.core.errors import ConfigError

    if port is not None and len(worlds) > 1:
        raise ConfigError("one port is for one world", fix="leave --port out, or start them one by one")
    plans = [
        deploy.Plan(
            world,
            image or deploy.IMAGE,
            port,
            os.environ.get(TOKEN_VARIABLE) or secrets.token_hex(32),
            memory=memory,
            cpus=cpus,
            data=data,
            prepared=prepared,
            network=network,
            options=tuple(option),
        )
        for world in worlds
    ]
    started = []
    with _engine() as engine:
        for plan in plans:
            with _progress(plan.world) as show:
                started.append(deploy.up(engine, plan, seconds=wait, progress=show))
    if as_json:
        console.result([one.to_json(secret=True) for one in started])
        return
    for one in started:
        typer.echo(f"{console.safe(one.world)}\t{one.url}\t{one.token}")
    _say_what_stays(started)
    first = started[0]
    console.message(f"AGENTENVS_TOKEN={first.token} agentenvs eval {first.world} --url {first.url}")


def _say_what_stays(started: list[Running]) -> None:
    """Say of worlds that were up already what was asked for in vain."""
    for one in started:
        asked = os.environ.get(TOKEN_VARIABLE)
        others = [*one.differs, *(["token"] if asked and asked != one.token else [])]
        if others:
            stays = f"{one.world} was up already and stays as it is, with another {', '.join(others)} than asked for"
            console.message(f"{stays}; agentenvs down {one.world}, then up, changes that")


def down(
    worlds: _Worlds = None,
    volumes: Annotated[bool, typer.Option("--volumes", help="Forget their sessions too.")] = False,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Stop worlds that `up` has started: they drain first. Nothing else is touched."""
    from agentenvs import deploy

    with _engine() as engine:
        stopped = deploy.down(engine, worlds or (), forget=volumes)
    if as_json:
        console.result(stopped)
        return
    for world in stopped:
        typer.echo(console.safe(world))
    if not stopped:
        console.message("nothing is up")


def ps(
    tokens: Annotated[bool, typer.Option("--tokens", help="Show their tokens.")] = False,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Show the worlds that `up` has started: how they stand, and where."""
    from agentenvs import deploy

    with _engine() as engine:
        found = deploy.ps(engine)
    if as_json:
        console.result([one.to_json(secret=tokens) for one in found])
        return
    if not found:
        console.message("nothing is up; agentenvs up WORLD starts one")
        return
    _show(found, tokens)


def logs(
    world: Annotated[str, typer.Argument(metavar="WORLD", help="Which.", autocompletion=completing.envs)],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    tail: Annotated[int | None, typer.Option(help="The last so many lines; all otherwise.", min=0)] = None,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Show what a world's server has logged."""
    from agentenvs import deploy

    with _engine() as engine:
        for line in deploy.logs(engine, world, lines=tail, follow=follow):
            typer.echo(console.safe(line))


@contextmanager
def _engine() -> Iterator[DockerClient]:
    from agentenvs import deploy

    with closing(deploy.connect()) as engine:
        yield engine


@contextmanager
def _progress(world: str) -> Iterator[Callable[[str, float], None]]:
    """Show how a world stands: a line that is written over where that is a terminal, else each state once."""
    last = ""
    live = sys.stderr.isatty()

    def show(state: str, seconds: float) -> None:
        nonlocal last
        if live:
            console.overwrite(f"{world}: {state}, {seconds:.1f} s")
        elif state != last:
            console.message(f"{world}: {state}" + (f" after {seconds:.1f} s" if state == "ready" else ""))
        last = state

    try:
        yield show
    finally:
        if live and last:
            console.message("")


def _show(found: list[Running], tokens: bool) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in ("world", "state", "url", "image", *(["token"] if tokens else [])):
        table.add_column(heading, overflow="fold")
    for one in found:
        cells = (one.world, one.state, one.url or "-", one.image, *([one.token] if tokens else []))
        table.add_row(*map(console.safe, cells))
    console.out().print(table)
