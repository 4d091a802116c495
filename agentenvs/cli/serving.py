"""``serve``: put environments behind HTTP."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentenvs.cli import arguments, completing, console, making
from agentenvs.core.errors import ConfigError

if TYPE_CHECKING:
    pass

TOKEN_VARIABLE = "AGENTENVS_TOKEN"


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples(
        "serve household",
        "serve household --port 8000 -o limit=100",
        "serve household --host 0.0.0.0 --token-file tokens",
    )
    app.command("serve", epilog=shown)(serve)


def serve(
    envs: Annotated[
        list[str], typer.Argument(metavar="ENV...", help="Environments to host.", autocompletion=completing.envs)
    ],
    host: Annotated[str, typer.Option(help="Address; beyond this machine a token is needed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File of tokens, one a line, that control sessions; ${TOKEN_VARIABLE} otherwise."),
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option(
            help="File, or postgresql:// URL, that sessions are kept in; 'none' for memory alone. "
            "A file of this user's for each port otherwise, and memory with --port 0.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes on one journal.")] = 1,
    url_file: Annotated[
        Path | None, typer.Option(help="Write the address here once it answers; for scripts, with --port 0.")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve beyond this machine without a token.")] = False,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: arguments.Data = None,
    max_sessions: Annotated[int, typer.Option(help="Open sessions at a time.")] = 4096,
    ttl: Annotated[int, typer.Option(help="Seconds without a call after which a session expires.")] = 900,
    retention: Annotated[int, typer.Option(help="Seconds for which records outlive their session.")] = 3600,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Serve environments over HTTP until told to stop.

    GET /docs on the address it prints shows the routes.
    """
    from agentenvs_servers import run
    from agentenvs_servers.settings import Settings

    tokens = _tokens(token_file)
    settings = Settings(max_sessions=max_sessions, idle_ttl=ttl, retention=retention, tokens=tokens)
    if insecure and not tokens:
        console.message("INSECURE: no token is asked for; whoever reaches this address controls every session.")
    run.serve(
        envs,
        host=host,
        port=port,
        settings=settings,
        options=_options(envs, option, data),
        insecure=insecure,
        journal=_journal(journal, port),
        workers=workers,
        up=lambda url: _tell(envs, url, url_file),
    )


def _tell(envs: list[str], url: str, url_file: Path | None) -> None:
    """Say that the server answers."""
    if url_file is not None:
        with console.files():
            fresh = url_file.with_name(f"{url_file.name}.tmp")
            fresh.write_text(f"{url}\n", encoding="utf-8")
            fresh.replace(url_file)  # so that nobody reads half an address
    console.message(f"serving {', '.join(envs)} at {url} (routes: {url}/docs); Ctrl-C stops")


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


def _options(envs: list[str], pairs: list[str], data: str | None) -> dict[str, Any]:
    """Read the options; each must be known to one of the environments."""
    from agentenvs.core import registry

    read: dict[str, Any] = {}
    for env in envs:
        spec = registry.spec(env)
        known = {option.name for option in spec.options}
        mine = [pair for pair in pairs if len(envs) == 1 or pair.partition("=")[0] in known]
        read |= making.parse_options(mine, spec)
        if data is not None and (len(envs) == 1 or "data" in known):
            read = making.with_data(spec, read, data)
    return read


def _tokens(file: Path | None) -> tuple[str, ...]:
    """Return the tokens of a file, else of the environment.

    Raises:
        ConfigError: The file cannot be read, or holds none.
    """
    if file is None:
        token = os.environ.get(TOKEN_VARIABLE)
        return (token,) if token else ()
    try:
        text = file.read_text(encoding="utf-8")
        open_to_all = sys.platform != "win32" and file.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the token file {file} cannot be read", why=str(error)) from error
    if open_to_all:
        console.message(f"the token file {file} can be read by everybody on this machine: chmod 600 {file}")
    lines = (line.strip() for line in text.splitlines())
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise ConfigError(f"the token file {file} holds no token", fix="write one a line")
    return tokens
