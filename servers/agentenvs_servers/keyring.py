"""The tokens of a server: who they stand for, how much each may take, and how they change while the server runs.

A tenant is the name of a token, so a token can be replaced by another of the same name without its sessions, creates
and quota going to somebody else. Of a token only the SHA-256 is kept. A file of tokens is looked at every second, and
read again where it has changed; one that cannot be read, or makes no sense, changes nothing and is told in the log.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agentenvs.core.errors import ConfigError
from agentenvs_servers.settings import refuse_weak

SCOPES = ("control", "metrics")

_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NAMED_LINE = re.compile(r"([^\s:]+):\s+(\S+)(?:\s+(\d+))?", re.ASCII)
_FIELDS = ("name", "token", "sha256", "max_sessions", "creates_per_second", "scope")

log = logging.getLogger("agentenvs.server")


class Tenant(NamedTuple):
    """Who asks, and how much of the server they may take; None where the settings say so."""

    name: str
    max_sessions: int | None = None
    creates_per_second: float | None = None
    scope: str = "control"


ANYBODY = Tenant("")
"""Whoever asks a server without tokens."""


class Token(NamedTuple):
    """A token."""

    digest: bytes
    tenant: Tenant


_NOBODY = Token(b"\0" * 32, Tenant("nobody"))


class Keyring:
    """The tokens of a server.

    Args:
        tokens: Some that always hold.
        file: Where more of them stand.

    Raises:
        ConfigError: The file cannot be read, holds none, or one that makes no sense.
    """

    def __init__(self, tokens: Iterable[str] = (), file: str | None = None) -> None:
        self.version = 0
        """Another number whenever the tokens are others."""
        self.is_sound = True
        """Whether the file could be read the last time."""
        self._fixed = [Token(_digest(token), Tenant(_digest(token).hex()[:12])) for token in tokens]
        self._file = None if file is None else Path(file)
        self._stamp: tuple[int, ...] | None = None
        self._due = False
        self._tokens: dict[bytes, Token] = {}
        self._has_metrics = False
        self._hold(self._fixed)
        if self._file is not None:
            self._stamp = _stamp(self._file)
            self._hold([*self._fixed, *read(self._file)])

    @property
    def asks(self) -> bool:
        """Whether control needs a token."""
        return bool(self._fixed) or self._file is not None

    @property
    def has_metrics_token(self) -> bool:
        """Whether one of them is for reading metrics alone."""
        return self._has_metrics

    def find(self, token: str) -> Tenant | None:
        """Return who a token stands for.

        It is looked for by digest, and compared once in constant time whether or not there is such a one: how long it
        takes tells nothing of the tokens that are right.
        """
        given = _digest(token)
        found = self._tokens.get(given, _NOBODY)
        return found.tenant if hmac.compare_digest(given, found.digest) else None

    def look_again(self) -> None:
        """Have the file read at the next :meth:`poll`, whatever its date says; safe in a handler of signals."""
        self._due = True

    def poll(self) -> None:
        """Read the file again, where it has changed."""
        if self._file is None:
            return
        stamp = _stamp(self._file)
        if stamp == self._stamp and not self._due:
            return
        self._stamp, self._due = stamp, False
        try:
            self._hold([*self._fixed, *read(self._file)])
        except ConfigError as error:
            self.is_sound = False
            log.error("the tokens stay as they are: %s: %s", error.what, error.why)
        else:
            self.is_sound = True
            log.info("the tokens were read again: %d", len(self._tokens))

    def _hold(self, tokens: Iterable[Token]) -> None:
        held = {token.digest: token for token in tokens}
        if held != self._tokens:
            self._tokens = held
            self._has_metrics = any(token.tenant.scope == "metrics" for token in held.values())
            self.version += 1


def read(file: Path) -> list[Token]:
    """Return the tokens of a file.

    A file that ends in ``.toml`` has a table ``[[token]]`` for each; any other a line ``NAME: TOKEN [SESSIONS]``, or
    ``TOKEN`` alone.

    Raises:
        ConfigError: It cannot be read, holds none, or one that makes no sense. No token stands in the message.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"the token file {file} cannot be read", why=str(error)) from error
    rows = _rows_of_toml(file, text) if file.suffix == ".toml" else _rows_of_lines(text)
    tokens: dict[bytes, Token] = {}
    tenants: dict[tuple[str, str], Tenant] = {}
    for where, row in rows:
        try:
            token = _token(row)
            tenant = tenants.setdefault((token.tenant.name, token.tenant.scope), token.tenant)
            if tenant != token.tenant:
                raise ConfigError(f"two tokens of {tenant.name} say different quotas")
            if token.digest in tokens:
                raise ConfigError("the same token stands there twice")
        except ConfigError as error:
            raise ConfigError(
                f"the token file {file} makes no sense at {where}",
                why=f"{error.what}{error.why and f': {error.why}'}",
                fix=error.fix or "docs/serving.md shows its form",
            ) from error
        tokens[token.digest] = token
    if not any(token.tenant.scope == "control" for token in tokens.values()):
        raise ConfigError(f"the token file {file} holds no token", fix="write one a line")
    return list(tokens.values())


def _rows_of_toml(file: Path, text: str) -> list[tuple[str, Mapping[str, Any]]]:
    try:
        form = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the token file {file} is no TOML", why=str(error)) from error
    rows = form.pop("token", [])
    if form or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"the token file {file} makes no sense", why="it holds tables [[token]] and nothing else")
    return [(f"token {number}", row) for number, row in enumerate(rows, 1)]


def _rows_of_lines(text: str) -> list[tuple[str, Mapping[str, Any]]]:
    rows: list[tuple[str, Mapping[str, Any]]] = []
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line.startswith("#"):
            continue
        named = _NAMED_LINE.fullmatch(line)
        row: dict[str, Any] = {"token": line}
        if named is not None:
            row = {"name": named[1], "token": named[2]}
            if named[3] is not None:
                row["max_sessions"] = int(named[3])
        rows.append((f"line {number}", row))
    return rows


def _token(row: Mapping[str, Any]) -> Token:
    """Return the token of a row.

    Raises:
        ConfigError: It makes no sense.
    """
    if unknown := sorted(set(row) - set(_FIELDS)):
        raise ConfigError(f"there is no field {unknown[0]!r}", fix=f"known: {', '.join(_FIELDS)}")
    digest = _digest_of(row)
    name = row.get("name", digest.hex()[:12])
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError("name: letters, digits, '_', '.' and '-', 64 at most")
    sessions, rate, scope = row.get("max_sessions"), row.get("creates_per_second"), row.get("scope", "control")
    if sessions is not None and (type(sessions) is not int or sessions < 1):
        raise ConfigError("max_sessions: a whole number, 1 or more")
    if rate is not None and (type(rate) not in (int, float) or not 0 < rate < 1e9):
        raise ConfigError("creates_per_second: a number above 0")
    if scope not in SCOPES:
        raise ConfigError(f"scope: {' or '.join(SCOPES)}")
    return Token(digest, Tenant(name, sessions, rate, scope))


def _digest_of(row: Mapping[str, Any]) -> bytes:
    token, sha256 = row.get("token"), row.get("sha256")
    if (token is None) == (sha256 is None):
        raise ConfigError("a token has either token or sha256")
    if sha256 is not None:
        if not isinstance(sha256, str) or not _DIGEST.fullmatch(sha256):
            raise ConfigError("sha256: 64 hexadecimal digits, of the token's SHA-256")
        return bytes.fromhex(sha256)
    if not isinstance(token, str):
        raise ConfigError("token: a text")
    refuse_weak(token)
    return _digest(token)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _stamp(file: Path) -> tuple[int, ...] | None:
    """Return what differs once a file is another."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
