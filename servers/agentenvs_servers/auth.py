"""Who may do what: a token controls, an agent key plays, and nothing else does either."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping

from agentenvs.core.errors import ConfigError
from agentenvs_servers.names import is_agent_key
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.settings import Settings


def bearer(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the token of an ``Authorization: Bearer`` header; None where there is none."""
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").strip().partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def control(headers: Mapping[bytes, bytes], settings: Settings) -> str:
    """Return the name of the tenant that may control sessions.

    Raises:
        ProblemError: ``wrong_scope`` for an agent key, ``unauthorized`` without a token of this server.
    """
    token = bearer(headers)
    if token is not None and is_agent_key(token):
        raise ProblemError("wrong_scope", "an agent key may not control sessions")
    if not settings.tokens:
        return ""
    if token is None or not settings.admits(token):
        said = "none was sent" if token is None else "the one that was sent is not of this server"
        raise ProblemError("unauthorized", said, headers={"WWW-Authenticate": "Bearer"})
    return hashlib.sha256(token.encode()).hexdigest()[:12]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_open_doors(host: str, settings: Settings, *, insecure: bool) -> None:
    """Refuse to serve beyond this machine without a token.

    Raises:
        ConfigError: No token, and nobody said that it shall be so.
    """
    if not settings.tokens and not is_loopback(host) and not insecure:
        raise ConfigError(
            f"a server on {host} needs a token",
            why="whoever can reach it could control every session",
            fix="set AGENTENVS_TOKEN or --token-file, serve on 127.0.0.1, or say --insecure",
        )
