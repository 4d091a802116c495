"""Who asks at a door: a token as everywhere, or in ``X-API-Key``, which is where some clients have theirs."""

from __future__ import annotations

from agentenvs_servers import auth
from agentenvs_servers.doors.routing import Call
from agentenvs_servers.keyring import Keyring, Tenant


def headers_of(call: Call) -> dict[bytes, bytes]:
    """Return the headers of a call, its key where a token is looked for."""
    key = call.headers.get(b"x-api-key")
    if key is not None and b"authorization" not in call.headers:
        return {**call.headers, b"authorization": b"Bearer " + key}
    return call.headers


def tenant_of(call: Call, keyring: Keyring) -> Tenant:
    """Return who asks.

    Raises:
        ProblemError: As :func:`agentenvs_servers.auth.control`.
    """
    return auth.control(headers_of(call), keyring)
