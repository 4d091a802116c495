"""``view``: runs in a browser, and pages of them as files."""

from __future__ import annotations

import ipaddress
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from agentenvs.cli import arguments, console
from agentenvs.core.errors import ConfigError

if TYPE_CHECKING:
    from agentenvs.core.record import Record
    from agentenvs.view import Pages
    from agentenvs.view.rendering import Page

_OPEN = "open"


class _Group(TyperGroup):
    """``view PATH`` is ``view open PATH``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = [_OPEN, *args]
        return super().parse_args(ctx, args)


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    shown = arguments.examples(
        "view",
        "view runs/expert runs/prior",
        "view runs --port 8080 --no-open",
        "view export runs/expert --out expert.html",
    )
    verbs = typer.Typer(
        cls=_Group,
        help="Show runs in a browser: lists, episodes turn by turn, comparisons, curves.\n\n"
        "agentenvs view [PATH]... is view open [PATH]...; view open --help shows its options.",
        epilog=shown,
    )
    opened = arguments.examples("view open runs/expert runs/prior", "view open --port 0 --url-file url --no-open")
    verbs.command(_OPEN, epilog=opened)(view)
    shown = arguments.examples(
        "view export runs/expert --out expert.html",
        "view export runs/expert --episode 3 --trace --out episode.html",
        "view export runs/prior --compare runs/expert --out both.html",
        "view export runs --out runs.html",
    )
    verbs.command("export", epilog=shown)(export)
    app.add_typer(verbs, name="view")


def view(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Run folders, or folders that hold some; runs where none is given.", metavar="PATH"),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(help="Port; the first free one from 7575 on otherwise, any free one for 0.")
    ] = None,
    url_file: Annotated[
        Path | None, typer.Option(help="Write the address here once it answers; for scripts, with --port 0.")
    ] = None,
    allow_host: Annotated[
        list[str], typer.Option("--allow-host", help="A name it may be asked by, beside addresses and localhost.")
    ] = [],  # noqa: B006 - typer reads the default
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    data: arguments.Data = None,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Show runs in a browser until told to stop; reads run folders, and writes into none."""
    from agentenvs.view import serve

    if not _is_loopback(host):
        console.message(f"Whoever reaches {host} can read every run shown here: the viewer asks for no token.")

    def up(url: str) -> None:
        if url_file is not None:
            with console.files():
                fresh = url_file.with_name(f".{url_file.name}.part")
                fresh.write_text(f"{url}\n", encoding="utf-8")
                fresh.replace(url_file)
        console.message(f"Runs at {url}   (Ctrl-C ends)")
        if not no_open:
            webbrowser.open(url)

    serve(_roots(paths), host=host, port=port, hosts=allow_host, machine=_machine(data), up=up)


def export(
    path: Annotated[Path, typer.Argument(help="A run folder, a training run, or a folder of runs.", metavar="PATH")],
    out: Annotated[Path, typer.Option("--out", help="The file that is written.", metavar="FILE")],
    episode: Annotated[int | None, typer.Option("--episode", help="This episode, turn by turn.", metavar="N")] = None,
    other: Annotated[
        Path | None, typer.Option("--compare", help="Another run: the two compared; with --episode, side by side.")
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Play the episode again, and show it from inside.")] = False,
    data: arguments.Data = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Write a page as one file that loads nothing, to be sent or kept."""
    from agentenvs.view import Pages, exported
    from agentenvs.view.pages import MissingError

    if trace and episode is None:
        raise ConfigError("only an episode is played again", fix="give --episode N, or leave out --trace")
    pages = Pages([path] if other is None else [path, other], _machine(data))
    try:
        made = _page(pages, path, episode, other, trace=trace)
    except MissingError as error:
        raise ConfigError(str(error).rstrip("."), fix="`agentenvs view PATH` shows what is there") from error
    finally:
        pages.shelf.close()
    with console.files():
        _write(out, exported(made, str(path)).encode("utf-8", "replace"))
    if as_json:
        console.result({"page": str(out), "bytes": out.stat().st_size})
    else:
        typer.echo(f"page: {out}")


def _write(out: Path, page: bytes) -> None:
    """Write a page where there is none, or an earlier one: whole, or not at all."""
    if out.exists() and not out.is_file():  # a pipe, a terminal
        out.write_bytes(page)
        return
    if out.exists():
        with out.open("rb") as file:
            if file.read(9).lower() not in (b"", b"<!doctype"):
                raise ConfigError(
                    f"{out} is there already, and is no page",
                    why="nothing else is overwritten",
                    fix="give another --out",
                )
    part = out.with_name(f".{out.name}.part")
    try:
        part.write_bytes(page)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def _page(pages: Pages, path: Path, episode: int | None, other: Path | None, *, trace: bool) -> Page:
    from agentenvs.view.pages import EXPORTED_ROWS

    run = pages.shelf.at(path)
    if run is None:
        if episode is not None or other is not None:
            raise ConfigError(f"{path} is no run folder", fix="give the folder of one run")
        return pages.runs({})
    if run.kind == "training":
        return pages.training(run.name)
    run.index.update()
    if other is not None:
        rival = pages.shelf.at(other)
        if rival is None or rival.kind != "run":
            raise ConfigError(f"{other} is no run folder", fix="give the folder of one run")
        rival.index.update()
        if episode is None:
            return pages.compare([run.name, rival.name], {}, wait=600.0, rows=EXPORTED_ROWS)
        return _side(pages, run, rival, episode)
    if episode is not None:
        return pages.episode(run.name, episode, {"trace": "1"} if trace else {}, whole=True)
    return pages.run(run.name, {}, rows=EXPORTED_ROWS)


def _side(pages: Pages, run: Any, rival: Any, episode: int) -> Page:
    from agentenvs.view import asking

    line = asking.episode(run.index, episode)
    found = [] if line is None else asking.elsewhere(run, [rival], line["split"], line["index"])
    if not found:
        raise ConfigError(f"{rival.shown} has no episode of that scenario", fix="give another --episode")
    return pages.side([run.name, rival.name], {"a": str(episode), "b": str(found[0][1])})


def _roots(paths: list[Path] | None) -> list[Path]:
    if paths:
        return paths
    if not Path("runs").is_dir():
        raise ConfigError(
            "there is no folder of runs here", fix="name one, or make a run: agentenvs eval household --policy expert"
        )
    return [Path("runs")]


def _machine(data: str | None) -> Any:
    def options(record: Record) -> dict[str, Any]:
        if data is None:
            return {}
        from agentenvs.cli import making
        from agentenvs.core import registry

        return making.with_data(registry.spec(record.header["env"]), {}, data)

    return options


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
