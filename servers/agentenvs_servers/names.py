"""The names: episodes in public; sessions, agent keys and tickets in secret.

``episode_id`` names an episode in logs, records and metrics. A session controls; an agent key observes and steps one
episode. Both begin with the routing token of the worker that made them, so that a proxy can hash on it, and end in 256
random bits. A ticket opens sealed scenarios one after another, at any worker. They are looked up by digest: how long a
look-up takes tells nothing about the secrets that exist.
"""

from __future__ import annotations

import re
import secrets

_SESSION = re.compile(r"[0-9a-f]{8}\.s\.[\w-]{43}")
_AGENT = re.compile(r"[0-9a-f]{8}\.a\.[\w-]{43}")
_TICKET = re.compile(r"ticket\.[\w-]{43}")


class Names:
    """Makes names for one worker."""

    def __init__(self) -> None:
        self.route = secrets.token_hex(4)

    def session(self) -> str:
        """Return a new session."""
        return f"{self.route}.s.{secrets.token_urlsafe(32)}"

    def agent(self) -> str:
        """Return a new agent key."""
        return f"{self.route}.a.{secrets.token_urlsafe(32)}"

    def episode(self) -> str:
        """Return a new episode id; unique, and no secret."""
        return f"ep-{secrets.token_hex(12)}"


def is_session(name: str) -> bool:
    """Return whether a name has the form of a session."""
    return _SESSION.fullmatch(name) is not None


def is_agent_key(name: str) -> bool:
    """Return whether a name has the form of an agent key."""
    return _AGENT.fullmatch(name) is not None


def new_ticket() -> str:
    """Return a new ticket."""
    return f"ticket.{secrets.token_urlsafe(32)}"


def is_ticket(name: str) -> bool:
    """Return whether a name has the form of a ticket."""
    return _TICKET.fullmatch(name) is not None
