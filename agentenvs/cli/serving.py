"""``serve``: put environments behind HTTP."""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from agentenvs.cli import arguments, completing, console, making
from agentenvs.cli.flags import with_settings
from agentenvs.core.errors import ConfigError

TOKEN_VARIABLE = "AGENTENVS_TOKEN"

_OTHERS = ("config", "data", "envs", "no_color", "option", "quiet", "url_file")
"""What is no setting, and has a variable all the same."""


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples(
        "serve household",
        "serve household --port 8000 -o limit=100",
        "serve household --host 0.0.0.0 --token-file tokens",
        "serve household --doors v1,openenv",
        "serve --config server.toml --log-format json",
    )
    app.command("serve", epilog=shown)(with_settings(serve))


def serve(
    envs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENV...",
            help="Environments to host.",
            envvar="AGENTENVS_SERVE_ENVS",
            autocompletion=completing.envs,
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file of settings, envs and [options]; flags and variables go first.")
    ] = None,
    url_file: Annotated[
        Path | None, typer.Option(help="Write the address here once it answers; for scripts, with --port 0.")
    ] = None,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: arguments.Data = None,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
    **given: Any,
) -> None:
    """Serve environments over HTTP until told to stop.

    GET /docs on the address it prints shows the routes. Every setting of docs/serving.md has a flag, also those that
    are not listed here, and a variable: --max-batch is AGENTENVS_SERVE_MAX_BATCH.
    """
    from agentenvs_servers import auth, configuring, run
    from agentenvs_servers.settings import PLAY

    flags = {name: value for name, value in given.items() if value is not None}
    token = os.environ.get(TOKEN_VARIABLE)
    read = configuring.read(flags, config, tokens=(token,) if token else (), others=_OTHERS)
    place, settings = read.place, read.settings
    if settings.token_file is not None:
        _warn_of_readers(Path(settings.token_file))
    names = _once(envs or read.envs)
    if not names:
        raise ConfigError("no environment is named", fix="agentenvs serve ENV, or envs = [...] in the file of settings")
    if place.insecure and not settings.asks_for_tokens:
        console.message("INSECURE: no token is asked for; whoever reaches this address controls every session.")
    if url_file is not None:
        with console.files():
            _beside(url_file).touch()  # says now that it cannot be written, not once the server is up
            _beside(url_file).unlink()
    # Without a token a server beyond this machine opens another door than the settings say, or none.
    played = PLAY in settings.open_doors and not auth.is_open(place.host, settings, insecure=place.insecure)
    run.serve(
        names,
        host=place.host,
        port=place.port,
        settings=settings,
        options=_options(names, option, data, read.options),
        insecure=place.insecure,
        journal=_journal(place.journal, place.port),
        workers=place.workers,
        without_token=place.without_token,
        up=lambda url: tell(names, url, url_file, logged=settings.log_format == "json", played=played),
    )


def _once(envs: Iterable[str]) -> list[str]:
    """Return what is served, each world under the first of its names."""
    from agentenvs.core import targets

    found: dict[str, str] = {}
    for env in envs:
        found.setdefault(targets.spec_of(env).id, env)
    return list(found.values())


def tell(envs: list[str], url: str, url_file: Path | None, *, logged: bool, played: bool = False) -> None:
    """Say that the server answers; in its log where that is for programs to read."""
    if url_file is not None:
        with console.files():
            fresh = _beside(url_file)
            fresh.write_text(f"{url}\n", encoding="utf-8")
            fresh.replace(url_file)  # so that nobody reads half an address
    more = f"; play by hand: {url}/play" if played else ""
    said = f"serving {', '.join(envs)} at {url} (routes: {url}/docs{more})"
    if logged:
        logging.getLogger("agentenvs.server").info(said)
    else:
        console.message(f"{said}; Ctrl-C stops")


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.name}.tmp")


def _journal(asked: str | None, port: int) -> str | None:
    """Return where the journal is; None for none."""
    if asked is not None:
        return None if asked in ("none", "memory") else asked
    if port == 0:
        return None
    return str(state_folder() / f"journal-{port}.db")


def state_folder() -> Path:
    """Return the folder of what this user's servers must not forget."""
    if folder := os.environ.get("XDG_STATE_HOME"):
        return Path(folder) / "agentenvs"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "agentenvs" / "state"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "agentenvs"
    return Path.home() / ".local" / "state" / "agentenvs"


def _options(envs: list[str], pairs: list[str], data: str | None, form: Mapping[str, Any]) -> dict[str, Any]:
    """Read the options; each must be known to one of the environments.

    Args:
        envs: What is served.
        pairs: ``name=value`` of the command line.
        data: A folder of game files.
        form: Those of the file of settings.
    """
    from agentenvs.core import targets

    read: dict[str, Any] = {**form}
    for env in envs:
        spec = targets.spec_of(env)
        known = {option.name for option in spec.options}
        mine = [pair for pair in pairs if len(envs) == 1 or pair.partition("=")[0] in known]
        read |= making.parse_options(mine, spec)
        if data is not None and (len(envs) == 1 or "data" in known):
            read = making.with_data(spec, read, data)
    return read


def _warn_of_readers(file: Path) -> None:
    try:
        open_to_all = sys.platform != "win32" and file.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH)
    except OSError:
        return  # whoever reads it says so
    if open_to_all:
        console.message(f"the token file {file} can be read by everybody on this machine: chmod 600 {file}")
