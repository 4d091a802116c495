"""What the journal hands over and takes: plain rows, and nothing of worlds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from agentenvs.core.verdict import Ending

SHORT = 12
"""Characters of a session's digest that are shown."""


class SessionRow(NamedTuple):
    """An open session, as it is when it is made."""

    id: bytes
    name: str
    tenant: str
    create_key: str
    place: int
    """Its place in the answer to its create."""
    env: str
    release: str
    spec: str
    options: str
    """Canonical JSON; the client's own."""
    traced: bool
    strict: bool
    idle: int
    absolute: int
    episode: str
    owner: str
    """Route of the worker that made it."""


class EpisodeRow(NamedTuple):
    """An episode, as it begins."""

    id: str
    session: bytes
    n: int
    """Its number in the session, from 1."""
    agent: bytes
    split: str
    number: int
    """Index of its scenario, or seed."""
    player: str
    opening: bytes
    """The packed answer to its reset."""
    effects: bytes | None


class Ended(NamedTuple):
    """An episode that is over, and was at a turn then."""

    id: str
    turns: int
    ending: Ending
    record: bytes | None
    """Packed; None where it cannot be told."""


class PlayedTurn(NamedTuple):
    """A turn to be played again."""

    turn: int
    action: bytes
    digest: bytes
    effects: bytes | None
    failed: str | None


class Saved(NamedTuple):
    """A checkpoint."""

    turn: int
    data: bytes


class Head(NamedTuple):
    """How a session stands, in short."""

    state: str
    episode: str


class Loaded(NamedTuple):
    """All that is needed to go on with a session."""

    session: SessionRow
    state: str
    begun: int
    born: float
    touched: float
    over: float | None
    reset_key: str | None
    reset_form: bytes | None
    farewell: bytes | None
    episode: EpisodeRow
    saved: Saved | None
    turns: Sequence[PlayedTurn]
    """Since the checkpoint."""
    recorded: Sequence[str]
    """Past episodes, oldest first."""
    now: float


class CreateRow(NamedTuple):
    """A create that was answered."""

    form: bytes
    single: bool
    sessions: Sequence[tuple[str, str, int, int, bytes]]
    """Name, environment, idle and absolute time to live, and opening of each, in order."""


def lookup(secret: str) -> bytes:
    """Return what a secret is kept and found under: 256 random bits need no salt."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def answer_digest(answer: bytes) -> bytes:
    """Return the digest of an answer that a turn is kept with."""
    return hashlib.sha256(answer).digest()[:16]
