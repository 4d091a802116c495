"""By which names a server may be called that listens on this machine alone and asks for no token.

A page of the web can give a name of its own the address 127.0.0.1, and its reader's browser then takes this server for
the page's own: it could make sessions here and read what they are. Such a request carries the page's name as its
``Host``, so it is refused, as is one whose ``Origin`` is a page of elsewhere. A ``Host`` in digits is nobody's name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from agentenvs_servers.problems import ProblemError

ANY = "*"

_MOST_KNOWN = 64
"""Spellings of ``Host`` that are remembered to be right."""


class Hosts:
    """The names of a server.

    Args:
        names: Further ones, with commas between them; ``*`` for any.
    """

    def __init__(self, names: str = "") -> None:
        self._names = {"localhost", *(name.strip().lower() for name in names.split(",") if name.strip())}
        self._known: set[bytes] = set()

    def knows(self, host: bytes) -> bool:
        """Return whether a ``Host`` was found to be this server's before."""
        return host in self._known

    def must_be_ours(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse what was sent to another name, or by a page of one.

        Raises:
            ProblemError: ``host_foreign`` or ``origin_foreign``.
        """
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if host is not None and host not in self._known:
            if not self._is_ours(f"//{host.decode('latin-1')}"):
                raise ProblemError("host_foreign", "it was sent to a name that is not this server's")
            if len(self._known) < _MOST_KNOWN:
                self._known.add(host)
        if origin is not None and not self._is_ours(origin.decode("latin-1")):
            raise ProblemError("origin_foreign", "its Origin is not this server's")

    def _is_ours(self, url: str) -> bool:
        try:
            name = (urlsplit(url).hostname or "").rstrip(".")
        except ValueError:
            return False
        return bool(name) and (ANY in self._names or name in self._names or _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
