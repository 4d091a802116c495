"""Who may enter the playground: whoever may control sessions, no more and no less than through the native protocol.

A server that asks for tokens is entered on a page: the token goes into a cookie that no script reads, no other site has
a browser send, and that goes nowhere but to the playground; it is looked up anew with every request, so one that is
taken from the server opens nothing from then on. A program may send the token as to the native protocol.
"""

from __future__ import annotations

import base64
import binascii
import re
from http.cookies import CookieError, SimpleCookie

from agentenvs_servers import auth
from agentenvs_servers.doors.routing import Call
from agentenvs_servers.hall import Hall
from agentenvs_servers.keyring import Tenant

COOKIE = "agentenvs_play"
PATH = "/play"

_PLACE = re.compile(r"/play(?:/[\w~-][\w.~-]*)*", re.ASCII)
_MOST_TOKEN = 1_000


def tenant_of(call: Call, hall: Hall) -> Tenant:
    """Return who asks.

    Raises:
        ProblemError: ``unauthorized`` or ``wrong_scope``.
    """
    token = auth.bearer(call.headers) or _held(call)
    return _tenant(token, hall)


def _tenant(token: str | None, hall: Hall) -> Tenant:
    headers = {} if token is None else {b"authorization": b"Bearer " + token.encode("latin-1", "replace")}
    return auth.control(headers, hall.keyring)


def entered(call: Call, hall: Hall, token: str) -> str:
    """Return the cookie of somebody who has given a token.

    Raises:
        ProblemError: ``unauthorized`` or ``wrong_scope``.
    """
    _tenant(token.strip()[:_MOST_TOKEN], hall)
    return _cookie(call, base64.urlsafe_b64encode(token.strip().encode()).decode().rstrip("="))


def left(call: Call) -> str:
    """Return the cookie of somebody who leaves."""
    return f"{_cookie(call, '')}; Max-Age=0"


def place_of(text: str) -> str:
    """Return an address of the playground that somebody wanted to see; its first page where the text is none."""
    return text if _PLACE.fullmatch(text) else PATH


def _cookie(call: Call, value: str) -> str:
    secure = "; Secure" if call.scope.get("scheme") == "https" else ""
    return f"{COOKIE}={value}; Path={PATH}; HttpOnly; SameSite=Strict{secure}"


def _held(call: Call) -> str | None:
    """Return the token of the cookie, where there is one."""
    try:
        found = SimpleCookie(call.headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
        if found is None or not found.value:
            return None
        padded = found.value + "=" * (-len(found.value) % 4)
        return base64.urlsafe_b64decode(padded).decode("latin-1")
    except (CookieError, binascii.Error, ValueError):
        return None
