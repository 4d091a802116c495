"""``play --browser``: an episode in a browser, on a server of this machine that lasts as long as somebody plays.

A world that has web pages of its own is played on those, every other on the playground's page of the episode. Where a
person is at the terminal the server stays until Ctrl-C: after the end there is a verdict to read, and another try.
"""

from __future__ import annotations

import os
import sys
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

    from agentenvs.core.spec import EnvSpec

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_SHOW = 1.0
"""For which the server stays after the end where nobody is at the terminal: the last page must reach the browser."""
_OVER = 410


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
    settings = Settings(doors="v1,web,play")
    with background([spec.id], settings, hosted) as url, httpx.Client(base_url=url, timeout=60) as http:
        form = _asked(http.post("/v1/sessions", json=body))
        place = f"/v1/agent/{form['agent_key']}/web" if _has_pages(spec) else f"/play/sessions/{form['session']}"
        console.message(f"Play at {url}{place}")
        console.message("Ctrl-C ends the episode, and the server.")
        with suppress(webbrowser.Error):
            webbrowser.open(url + place)
        session = f"/v1/sessions/{form['session']}"
        interrupted = _waited(http, session, stays=sys.stdin.isatty() and not as_json)
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


def _has_pages(spec: EnvSpec) -> bool:
    """Return whether an environment describes web pages of its own."""
    from agentenvs.core import registry
    from agentenvs.core.environment import Environment

    found = getattr(registry.load(spec.entry_point), "webpage", None)
    return found is not None and found is not Environment.webpage


def _waited(http: httpx.Client, session: str, *, stays: bool) -> bool:
    """Wait until nobody plays any more; returns whether somebody interrupted a running episode.

    Args:
        http: The server.
        session: Address of the session.
        stays: Whether to wait for Ctrl-C after the end.
    """
    ended, told = False, False
    try:
        while stays or not ended:
            ended = _has_ended(http.get(session))
            if ended and stays and not told:
                console.message("The episode has ended; the page stays until Ctrl-C.")
                told = True
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        time.sleep(_SECONDS_TO_SHOW)
    except KeyboardInterrupt:
        return not ended
    return False


def _has_ended(answer: httpx.Response) -> bool:
    return answer.status_code == _OVER or _asked(answer)["ending"] is not None


def _tell(status: dict[str, Any], *, as_json: bool) -> None:
    verdict = status.get("verdict") or {}
    if as_json:
        console.result({"ending": status.get("ending"), "turns": status.get("turn"), "verdict": verdict})
        return
    won = "won" if verdict.get("success") else "lost"
    said = f"\n{status.get('ending')} after {status.get('turn')} turns; reward {verdict.get('reward', 0.0):g}; {won}"
    typer.echo(said)
