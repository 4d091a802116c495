"""What everybody can do once an epoch is over: hold the reveal against the promise, and play every run again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agentenvs.core.canon import JSON
from agentenvs.core.errors import DataError
from agentenvs.core.sealed import VARIABLE, sealed_secret_id
from agentenvs.leaderboard.hosting import panels
from agentenvs.leaderboard.hosting.epoch import Epoch, check_reveal
from agentenvs.leaderboard.hosting.judging import Given, Played, judge
from agentenvs.leaderboard.hosting.results import HostedResult

PUBLISHED = "published.json"


def recheck(folder: Path, revealed: Mapping[str, JSON]) -> int:
    """Play every run of a folder again with the secret that was revealed, and return how many there are.

    Args:
        folder: Holds ``published.json`` and, under ``runs``, the runs as the host settled them.
        revealed: What the operator revealed.

    Raises:
        DataError: It is not what was promised, or a run is not worth what it was given.
        UserError: Some other subclass: a record is damaged, or the environment cannot be played here.
    """
    promised = {name: value for name, value in _read(folder / PUBLISHED).items() if name not in ("key", "key_id")}
    key = check_reveal(revealed, promised)
    with _secret(key):
        if sealed_secret_id() != promised["secret"]:
            raise DataError("the name of the secret is not that of what was revealed")
        epoch = Epoch(**{name: value for name, value in revealed.items() if name != "key"})
        runs = sorted((folder / "runs").glob("*/result.json"))
        for path in runs:
            _again(path.parent, epoch, key)
    return len(runs)


def _again(run: Path, epoch: Epoch, key: bytes) -> None:
    told = HostedResult.from_json(_read(run / "result.json"))
    if told.ticket != panels.name_of(epoch.board, epoch.secret, told.contestant, told.attempt):
        raise DataError(
            f"the ticket of the run {run} has a name that was chosen", fix="ask the operator, and show this"
        )
    numbers = panels.order(key, told.ticket, epoch.shared, epoch.own, epoch.size)
    if len(numbers) != len(told.episodes):
        raise DataError(f"the run {run} has {len(told.episodes)} scenarios, not {len(numbers)}")
    given = []
    for order, (number, one) in enumerate(zip(numbers, told.episodes, strict=True)):
        path = run / "records" / f"{order:06d}.jsonl"
        record = path.read_bytes() if one.record is not None and path.exists() else None
        given.append(Given(number, one.ending is not None, one.ending, record))
    found = judge(Played(told.ticket, told.contestant, told.agent, told.attempt, tuple(given)), epoch)
    if {**found.to_json(), "version": ""} != {**told.to_json(), "version": ""}:
        raise DataError(f"the run {run} is not worth what it was given", fix="ask the operator, and show this")


@contextmanager
def _secret(key: bytes) -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = key.hex()
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _read(path: Path) -> dict[str, JSON]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read", why=str(error)[:200]) from error
    if not isinstance(found, dict):
        raise DataError(f"{path} holds no object")
    return found
