"""The operator's secret behind sealed scenarios, read from where operators keep secrets: the environment.

Whoever holds it can make the scenarios of a sealed split; nobody else can, nor test a guess against a smaller number
of possibilities than the secret has. It stands in no message, record, spec or cache.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Final

from agentenvs.core.errors import ConfigError
from agentenvs.core.streams import derive, sealed_key

VARIABLE: Final = "AGENTENVS_SEALED_SECRET"
LEAST_BITS: Final = 128

_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})+")
_FIX: Final = f"set {VARIABLE} to at least {LEAST_BITS // 4} random hexadecimal digits (openssl rand -hex 32)"


def sealed_secret() -> bytes:
    """Return the operator's secret.

    Raises:
        ConfigError: The variable is not set, is not hexadecimal, or holds too little.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        raise ConfigError("a sealed split needs the operator's secret", why=f"{VARIABLE} is not set", fix=_FIX)
    if not _HEX.fullmatch(text):
        raise ConfigError("the operator's secret cannot be used", why=f"{VARIABLE} is not hexadecimal", fix=_FIX)
    secret = bytes.fromhex(text)
    if 8 * len(secret) < LEAST_BITS:
        raise ConfigError("the operator's secret is too short", why=f"it has {8 * len(secret)} bits", fix=_FIX)
    return secret


def refuse_unusable_secret() -> None:
    """Refuse a secret that is set and cannot be used: whoever set it means to serve sealed scenarios.

    Raises:
        ConfigError: See :func:`sealed_secret`.
    """
    if os.environ.get(VARIABLE, "").strip():
        sealed_secret()


def sealed_scenario_key(env: str, index: int) -> bytes:
    """Return the 256-bit key of a sealed scenario under the operator's secret.

    Args:
        env: Slug of the environment.
        index: Index in the sealed split.

    Raises:
        ConfigError: The secret cannot be used; see :func:`sealed_secret`.
    """
    return sealed_key(sealed_secret(), env, index)


def sealed_secret_id() -> str:
    """Return a name for the operator's secret, which tells nothing of it: which scenarios were given out under which.

    Raises:
        ConfigError: The secret cannot be used; see :func:`sealed_secret`.
    """
    return derive(hashlib.sha256(sealed_secret()).digest(), "sealed/id").hex()[:32]
