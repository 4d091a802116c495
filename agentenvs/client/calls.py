"""The small records between what is to be said and how it is sent."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Call(NamedTuple):
    """A request; may be sent any number of times with one effect."""

    method: str
    path: str
    """From ``/v1`` on; may hold secrets, so it stands in no message."""
    body: bytes | None = None
    """A JSON object."""
    once: bool = False
    """Not worth an attempt more, nor much time."""
    op: str = ""
    """Its name on a socket; empty where it is for HTTP only."""
    fields: bytes = b""
    """What stands in the path over HTTP, as fields of JSON (``"session":"…"``)."""
    route: str = ""
    """Routing token of the session: which of several workers has it in memory."""
    bearer: str = ""
    """What is sent instead of the endpoint's token; of requests that are for HTTP only."""

    def frame(self, number: int) -> bytes:
        """Return the request as a socket takes it."""
        head = b'{"id":%d,"op":"%b"' % (number, self.op.encode())
        if self.fields:
            head = b"%b,%b" % (head, self.fields)
        return head + _rest(self.body)

    def item(self) -> bytes:
        """Return a step as an item of a batch."""
        return b"{" + self.fields + _rest(self.body)


def _rest(body: bytes | None) -> bytes:
    """Return what follows the first fields of an object that takes in another one."""
    return b"}" if body is None or body == b"{}" else b"," + body[1:]


class Answer(NamedTuple):
    """A reply."""

    status: int
    retry_after: float | None
    """Seconds the server asks to wait."""
    data: bytes
    """Its body; empty where ``form`` holds it."""
    form: Any = None
    """Its body where it was read already."""


Dialogue: TypeAlias = Generator[Call, Answer, T]
"""What is to be said: yields requests, is sent the replies, returns what came of it.

The same dialogue is carried by a blocking line and by an asynchronous one.
"""
