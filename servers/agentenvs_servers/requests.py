"""The request that is being answered, as logs and counters know it: an id, a tenant, never an address."""

from __future__ import annotations

import itertools
import re
import secrets
from contextvars import ContextVar

_SANE = re.compile(rb"[\w.:+/=-]{1,128}", re.ASCII)
_PROCESS = secrets.token_hex(4)
_numbers = itertools.count(1)


class Request:
    """One request.

    Args:
        given: The id that its client sent, if any; taken where it is sane.
    """

    __slots__ = ("_id", "is_given", "tenant")

    def __init__(self, given: bytes | None = None) -> None:
        self._id: str | None = None
        self.is_given = False
        self.tenant = ""
        """Name of the token it came with."""
        if given is not None and _SANE.fullmatch(given):
            self._id = given.decode("ascii")
            self.is_given = True

    @property
    def id(self) -> str:
        """The id; made when it is first asked for."""
        if self._id is None:
            self._id = f"{_PROCESS}-{next(_numbers):x}"
        return self._id


current: ContextVar[Request | None] = ContextVar("request", default=None)
"""The request of this task."""
