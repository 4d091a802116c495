"""What an operator promises before anybody plays, and shows afterwards.

An epoch is one secret on one board. Before it begins the operator publishes C = SHA-256(secret || salt). After it has
ended, secret and salt are revealed: everybody makes the same scenarios, plays every record again, and finds the same
numbers; the scenarios are public then, for practice. The salt lies in the host's folder, the secret does not: it is
read from the environment, like that of any sealed split.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from agentenvs.core.canon import JSON, canonical_bytes
from agentenvs.core.errors import ConfigError, DataError
from agentenvs.core.sealed import VARIABLE, sealed_secret, sealed_secret_id

NAME = "epoch.json"
SALT_BYTES = 32


@dataclass(frozen=True, slots=True)
class Epoch:
    """One secret on one board."""

    board: str
    env: str
    """Id of the environment."""
    split: str
    size: int
    """Scenarios of the sealed split."""
    options: Mapping[str, JSON]
    """Of the episodes, those that belong to the machine left out."""
    shared: int
    """Scenarios that all contestants have in common."""
    own: int
    """Further ones of each ticket."""
    secret: str
    """Name of the operator's secret."""
    salt: str
    """In hexadecimal digits; secret until the reveal."""
    commitment: str

    @classmethod
    def begin(
        cls, board: str, env: str, split: str, size: int, options: Mapping[str, JSON], shared: int, own: int
    ) -> Epoch:
        """Begin an epoch under the secret of the environment's variables.

        Raises:
            ConfigError: There is no secret that can be used.
        """
        salt = secrets.token_bytes(SALT_BYTES)
        made = commitment(sealed_secret(), salt)
        return cls(board, env, split, size, dict(options), shared, own, sealed_secret_id(), salt.hex(), made)

    def published(self) -> dict[str, JSON]:
        """Return what everybody may know before the end."""
        return {name: value for name, value in asdict(self).items() if name != "salt"}

    def reveal(self) -> dict[str, JSON]:
        """Return all that is needed to make the scenarios.

        Raises:
            ConfigError: The secret of the environment's variables is another one.
        """
        self.must_be_ours()
        return {**asdict(self), "key": sealed_secret().hex()}

    def must_be_ours(self) -> None:
        """Refuse another secret than that of the epoch.

        Raises:
            ConfigError: It is another one, or none.
        """
        if sealed_secret_id() != self.secret:
            raise ConfigError(
                f"{VARIABLE} holds another secret than the one this board began with",
                why="what was promised of it would not hold",
                fix="give the same secret, or begin another board in another folder",
            )

    def write(self, folder: Path) -> None:
        """Keep it in a host's folder, for its owner alone.

        Raises:
            DataError: The disk does not take it.
        """
        write_private(folder / NAME, canonical_bytes(asdict(self)) + b"\n")


def read(folder: Path) -> Epoch:
    """Read the epoch of a host's folder.

    Raises:
        DataError: There is none, or it is damaged.
    """
    path = folder / NAME
    try:
        return _epoch(json.loads(path.read_bytes()))
    except FileNotFoundError as error:
        fix = "begin one with `agentenvs leaderboard host`, or give its folder"
        raise DataError(f"there is no board hosted in {folder}", fix=fix) from error
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} cannot be read", why=str(error)[:200]) from error


def _epoch(form: Any) -> Epoch:
    if not isinstance(form, dict) or set(form) != {field.name for field in fields(Epoch)}:
        raise ValueError("it has another form")
    return Epoch(**form)


def commitment(secret: bytes, salt: bytes) -> str:
    """Return SHA-256(secret || salt) in hexadecimal digits."""
    return hashlib.sha256(secret + salt).hexdigest()


def check_reveal(form: Mapping[str, JSON], published: Mapping[str, JSON]) -> bytes:
    """Hold what was revealed against what was published, and return the secret.

    Raises:
        DataError: It has no such form, or is not what was promised.
    """
    try:
        key, salt = bytes.fromhex(form["key"]), bytes.fromhex(form["salt"])
        told = {name: value for name, value in form.items() if name not in ("key", "salt")}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError("what was revealed has no form that is known", why=str(error)[:200]) from error
    if different := sorted(name for name in {*told, *published} if told.get(name) != published.get(name)):
        raise DataError(
            "what was revealed is of another board than what was published",
            why=f"they differ in {', '.join(different)}",
        )
    if not hmac.compare_digest(commitment(key, salt), str(published.get("commitment"))):
        raise DataError("what was revealed is not what was promised", why="SHA-256(secret || salt) is another one")
    return key


def write_private(path: Path, data: bytes) -> None:
    """Write a file for its owner alone, whole or not at all.

    Raises:
        DataError: The disk does not take it.
    """
    fresh = path.with_name(f"{path.name}.tmp")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(data)
        fresh.replace(path)
    except OSError as error:
        raise DataError(f"{path} cannot be written", why=str(error), fix="make room, or give another folder") from error
