"""The small records between what is to be said and how it is sent."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Call(NamedTuple):
    """A request; may be sent any number of times with one effect."""

    method: str
    path: str
    """From ``/v1`` on; may hold secrets, so it stands in no message."""
    body: bytes | None = None
    """JSON."""
    once: bool = False
    """Not worth an attempt more, nor much time."""


class Answer(NamedTuple):
    """A reply."""

    status: int
    retry_after: float | None
    """Seconds the server asks to wait."""
    data: bytes


Dialogue: TypeAlias = Generator[Call, Answer, T]
"""What is to be said: yields requests, is sent the replies, returns what came of it.

The same dialogue is carried by a blocking line and by an asynchronous one.
"""
