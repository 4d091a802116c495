"""What an operator may set: limits of sessions, bodies and time, and who may come in."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from agentenvs.core.errors import ConfigError

LEAST_TOKEN_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits, all of them told to clients by a problem of their own."""

    max_sessions: int = 4096
    """Open sessions at a time (``at_capacity``)."""
    max_live: int = 4096
    """Worlds in memory, of sessions that are kept in a journal; those idle longest are made again when asked for."""
    max_group: int = 256
    """Sessions of one create."""
    idle_ttl: int = 900
    """Seconds without an answered call after which a session expires, where its creator names none."""
    max_idle_ttl: int = 86_400
    """The most a creator may ask for."""
    absolute_ttl: int = 86_400
    """Seconds after which a session expires in any case, but never in the middle of a call."""
    retention: int = 3_600
    """Seconds for which the records of a closed or expired session can be fetched."""
    retained_bytes: int = 512 * 2**20
    """The most that records of ended episodes may take; the oldest of closed sessions go first."""
    max_episodes: int = 100_000
    """Episodes of one session (``episodes_spent``)."""
    kept_episodes: int = 1_000
    """Episodes of an open session whose records can be fetched, the latest first."""
    max_body_bytes: int = 2 * 2**20
    """``body_too_large``."""
    max_action_bytes: int = 2**20
    """``action_too_large``."""
    max_batch: int = 1024
    """Steps of one batch (``batch_too_long``)."""
    body_seconds: float = 10.0
    """In which a body must arrive (``request_slow``)."""
    socket_requests: int = 1024
    """Requests of one socket that may run at a time; further ones wait on the line."""
    socket_ping_seconds: float = 20.0
    """How often the other end of a socket is asked whether it is there, and how long it has to say so."""
    blocking_threads: int = 256
    """Threads for environments that may block; others are stepped on the event loop."""
    tokens: tuple[str, ...] = field(default=(), repr=False)
    """Who may control sessions; anybody where empty."""

    def __post_init__(self) -> None:
        """Refuse numbers and tokens that cannot hold.

        Raises:
            ConfigError: A limit below 1, or a token that could be guessed.
        """
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and value <= 0:
                raise ConfigError(f"the setting {name} is {value}", fix="give a number above 0")
        for token in self.tokens:
            if len(token) < LEAST_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
                raise ConfigError(
                    "a token of this server is too weak",
                    why=f"tokens have {LEAST_TOKEN_CHARACTERS} printable ASCII characters or more, no blanks",
                    fix="python -c 'import secrets; print(secrets.token_urlsafe())'",
                )

    def admits(self, token: str) -> bool:
        """Return whether a token is one of this server's; takes as long for a near miss as for a far one."""
        given = hashlib.sha256(token.encode()).digest()
        # No early return: how many comparisons were made must not depend on which token is right.
        found = [hmac.compare_digest(given, hashlib.sha256(known.encode()).digest()) for known in self.tokens]
        return any(found)
