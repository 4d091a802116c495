"""Sends a bundle to a board, at a server or in a folder, and says what became of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from agentenvs.core.canon import sha256
from agentenvs.core.errors import ConfigError, ServiceError
from agentenvs.harness.manifest import Manifest
from agentenvs.leaderboard import asking
from agentenvs.leaderboard.refusals import Refused, from_json
from agentenvs.leaderboard.store import opened
from agentenvs.leaderboard.verifying import Progress

_POLL_SECONDS = 0.3
_SLOWEST_POLL = 3.0


class Target:
    """Where boards are: ``http://HOST:PORT``, the address of a board's page, or the folder of a store."""

    def __init__(self, where: str, token: str = "", *, transport: httpx.BaseTransport | None = None) -> None:
        self.board: str | None = None
        self._token = token
        self._transport = transport
        self._folder: Path | None = None
        self._url = ""
        if "://" in where:
            self._url, _, named = where.partition("/boards/")
            self.board = named.partition("?")[0].strip("/").partition("/")[0] or None
            self._url = self._url.rstrip("/")
            if not self._url.startswith(("http://", "https://")):
                raise ConfigError(f"{where} is no address of a board", fix="http://HOST:PORT/boards/ID, or a folder")
        else:
            self._folder = Path(where)

    def boards(self) -> list[dict[str, Any]]:
        """Return the boards that are there."""
        if self._folder is not None:
            if not self._folder.is_dir():
                raise ConfigError(f"there are no boards in {self._folder}", fix="agentenvs leaderboard create")
            with opened(self._folder) as store:
                return [shown.to_json() for shown in asking.listed(store)]
        with self._client() as client:
            found: list[dict[str, Any]] = _answered(client.get("/api/boards"))["boards"]
        return found

    def choose(self, made: Manifest, named: str | None = None) -> str:
        """Return the board for a run.

        Args:
            made: Its manifest.
            named: The board that was asked for.

        Raises:
            ConfigError: There is none, or more than one.
        """
        if chosen := named or self.board:
            return chosen
        return choose(self.boards(), made)

    def send(self, board: str, data: bytes, progress: Progress | None = None) -> dict[str, Any]:
        """Send a bundle, wait until it is verified, and return its row.

        Raises:
            Refused: The board does not take it.
            ServiceError: The server cannot be reached.
        """
        if self._folder is not None:
            with opened(self._folder) as store:
                entry = store.admit(board, data, progress=progress)
                return asking.one_entry(store, board, entry)
        with self._client() as client:
            return self._sent(client, board, data, progress)

    def _sent(self, client: httpx.Client, board: str, data: bytes, progress: Progress | None) -> dict[str, Any]:
        headers = {"content-type": "application/zip"}
        job = _answered(client.post(f"/api/boards/{board}/submissions", content=data, headers=headers))
        wait = _POLL_SECONDS
        while job["state"] in ("waiting", "verifying"):
            if progress is not None and job["total"]:
                progress(job["done"], job["total"])
            time.sleep(wait)
            wait = min(wait * 1.2, _SLOWEST_POLL)
            job = _answered(client.get(f"/api/boards/{board}/submissions/{sha256(data)}"))
        if job["state"] == "refused":
            raise _refusal(job["answer"])
        row: dict[str, Any] = _answered(client.get(f"/api/boards/{board}/entries/{job['answer']}"))
        return row

    @contextmanager
    def _client(self) -> Iterator[httpx.Client]:
        headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            with httpx.Client(base_url=self._url, headers=headers, timeout=60.0, transport=self._transport) as client:
                yield client
        except httpx.HTTPError as error:
            raise ServiceError(
                f"the leaderboard at {self._url} cannot be reached", why=str(error), fix="check --board"
            ) from error


def choose(boards: Sequence[Mapping[str, Any]], made: Manifest) -> str:
    """Return the id of the one board a run is for.

    Raises:
        ConfigError: There is none, or more than one.
    """
    entry = made.envs[0]
    mine = [board for board in boards if board["env"] == entry.env_id and not board["sealed"]]
    fit = [
        board
        for board in mine
        if board["open"]
        and (board["split"], board["trials"], board["options"]) == (entry.split, entry.trials, entry.options)
        and (board["release"], board["scenarios"]) == (entry.env_version, entry.tasks)
    ]
    if not fit and len(mine) == 1:
        fit = mine  # the one there is says best why it does not take it
    if len(fit) == 1:
        found: str = fit[0]["id"]
        return found
    names = ", ".join(board["id"] for board in (fit or mine or boards)[:6])
    if fit:
        raise ConfigError("the run fits several boards", fix=f"give --on ID: {names}")
    what = f"there is no board for {entry.tasks} scenarios of {entry.env_id} {entry.split}"
    raise ConfigError(what, fix=f"give --on ID: {names}" if names else "agentenvs leaderboard create")


def _answered(response: httpx.Response) -> dict[str, Any]:
    try:
        form: dict[str, Any] = response.json()
    except ValueError as error:
        raise ServiceError(
            "the leaderboard gave no answer that makes sense", why=f"status {response.status_code}", fix="check --board"
        ) from error
    if response.is_success:
        return form
    raise _refusal(form.get("error", {}))


def _refusal(form: Any) -> Refused | ServiceError:
    said = form if isinstance(form, dict) else {}
    text = {name: str(value)[:2_000] for name, value in said.items()}
    return from_json(text) or ServiceError(
        "the leaderboard failed", why=text.get("what", "it does not say how"), fix="try again later"
    )
