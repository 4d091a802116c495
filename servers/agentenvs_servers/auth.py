"""Who may do what: a token controls, an agent key plays, and nothing else does either."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from agentenvs.core.errors import ConfigError
from agentenvs_servers.keyring import ANYBODY, Keyring, Tenant
from agentenvs_servers.names import is_agent_key, is_ticket
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.requests import current
from agentenvs_servers.settings import Settings


def bearer(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the token of an ``Authorization: Bearer`` header; None where there is none."""
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").strip().partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def control(headers: Mapping[bytes, bytes], keyring: Keyring) -> Tenant:
    """Return the tenant that may control sessions.

    Raises:
        ProblemError: ``wrong_scope`` for an agent key, a ticket or a token for metrics, ``unauthorized`` without a
            token of this server.
    """
    token = bearer(headers)
    if token is not None and is_agent_key(token):
        raise ProblemError("wrong_scope", "an agent key may not control sessions")
    if token is not None and is_ticket(token):
        raise ProblemError("wrong_scope", "a ticket may not control sessions", fix="POST /v1/tickets/next")
    if not keyring.asks:
        return ANYBODY
    tenant = _known(token, keyring)
    if tenant.scope != "control":
        raise ProblemError("wrong_scope", "this token is for GET /metrics alone", fix="send a token for control")
    return tenant


def metrics(headers: Mapping[bytes, bytes], keyring: Keyring) -> None:
    """Let pass who may read metrics: whoever has a token for them, where there is one; else whoever may control.

    Raises:
        ProblemError: As :func:`control`.
    """
    if not keyring.has_metrics_token:
        control(headers, keyring)
    elif _known(bearer(headers), keyring).scope != "metrics":
        raise ProblemError("wrong_scope", "this server has a token for metrics", fix="send that token")


def _known(token: str | None, keyring: Keyring) -> Tenant:
    tenant = None if token is None else keyring.find(token)
    if tenant is None:
        said = "none was sent" if token is None else "the one that was sent is not of this server"
        raise ProblemError("unauthorized", said, headers={"WWW-Authenticate": "Bearer"})
    if (request := current.get()) is not None:
        request.tenant = tenant.name
    return tenant


class Pass:
    """What a socket was opened with; looked at again when the tokens have changed.

    Args:
        headers: Of the handshake.
        keyring: The server's tokens.

    Raises:
        ProblemError: As :func:`control`.
    """

    def __init__(self, headers: Mapping[bytes, bytes], keyring: Keyring) -> None:
        self._headers = headers
        self._keyring = keyring
        self._version = keyring.version
        self._tenant = control(headers, keyring)

    def tenant(self) -> Tenant:
        """Return the tenant.

        Raises:
            ProblemError: ``unauthorized``, where its token is none any more.
        """
        if self._version != self._keyring.version:
            self._tenant = control(self._headers, self._keyring)
            self._version = self._keyring.version
        elif (request := current.get()) is not None:
            request.tenant = self._tenant.name
        return self._tenant


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_open(host: str, settings: Settings, *, insecure: bool) -> bool:
    """Return whether a server could be controlled by anybody, and nobody said that it shall."""
    return not settings.asks_for_tokens and not is_loopback(host) and not insecure


def refuse_open_doors(host: str, settings: Settings, *, insecure: bool) -> None:
    """Refuse to serve beyond this machine without a token.

    Raises:
        ConfigError: No token, and nobody said that it shall be so.
    """
    if is_open(host, settings, insecure=insecure):
        raise ConfigError(
            f"a server on {host} needs a token",
            why="whoever can reach it could control every session",
            fix="set AGENTENVS_TOKEN or --token-file, serve on 127.0.0.1, or say --insecure",
        )
