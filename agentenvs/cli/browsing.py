"""``play --browser``: an episode as web pages, on a server of this machine that lasts as long as the episode."""

from __future__ import annotations

import os
import time
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agentenvs.cli import console, making
from agentenvs.core.errors import ConfigError

if TYPE_CHECKING:
    import httpx

_SECONDS_BETWEEN_LOOKS = 0.5


def play(
    env: str, split: str | None, index: int, option: list[str], data: str | None, record: Path | None, *, as_json: bool
) -> int:
    """Serve an episode to a browser, wait for its end, and return the exit code.

    Args:
        env: As the command line names it.
        split: The split; the default one where None.
        index: Index in the split.
        option: Options, as ``name=value``.
        data: Folder of the field's data files.
        record: Where the record goes.
        as_json: Whether the outcome is printed as JSON.

    Raises:
        ConfigError: The environment is not one that a server finds by its name.
    """
    import httpx

    from agentenvs.core import targets
    from agentenvs_servers.run import background
    from agentenvs_servers.settings import Settings

    spec = targets.spec_of(env)
    options = making.with_data(spec, making.parse_options(option, spec), data)
    machine = {item.name for item in spec.options if item.secret}
    body = {
        "env": spec.id,
        "key": os.urandom(12).hex(),
        "options": {name: value for name, value in options.items() if name not in machine},
        "task": {"split": split or spec.default_split, "index": index},
    }
    hosted = {name: value for name, value in options.items() if name in machine and value is not None}
    with background([spec.id], Settings(doors="v1,web"), hosted) as url, httpx.Client(base_url=url, timeout=60) as http:
        form = _asked(http.post("/v1/sessions", json=body))
        address = f"{url}/v1/agent/{form['agent_key']}/web"
        console.message(f"Play at {address}")
        console.message("Ctrl-C ends the episode.")
        with suppress(webbrowser.Error):
            webbrowser.open(address)
        session = f"/v1/sessions/{form['session']}"
        interrupted = _waited(http, session)
        ended = _asked(http.delete(session))
        if record is not None:
            with console.files():
                record.write_bytes(http.get(f"{session}/record").raise_for_status().content)
    _tell(ended, as_json=as_json)
    return console.INTERRUPTED if interrupted else console.OK


def _asked(answer: httpx.Response) -> dict[str, Any]:
    """Return what a server answered.

    Raises:
        ConfigError: It refused.
    """
    form: dict[str, Any] = answer.json()
    if answer.is_error:
        raise ConfigError(f"the episode cannot be played: {form.get('title')}", why=str(form.get("detail", "")))
    return form


def _waited(http: httpx.Client, session: str) -> bool:
    """Wait for the end of the episode; returns whether somebody interrupted that."""
    try:
        while _asked(http.get(session))["ending"] is None:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    except KeyboardInterrupt:
        return True
    return False


def _tell(status: dict[str, Any], *, as_json: bool) -> None:
    verdict = status.get("verdict") or {}
    if as_json:
        console.result({"ending": status.get("ending"), "turns": status.get("turn"), "verdict": verdict})
        return
    won = "won" if verdict.get("success") else "lost"
    said = f"\n{status.get('ending')} after {status.get('turn')} turns; reward {verdict.get('reward', 0.0):g}; {won}"
    typer.echo(said)
