"""Where a server is, and what every request to it says."""

from __future__ import annotations

import ipaddress
import os
import urllib.request
from typing import Literal

import httpx

from agentenvs._version import __version__
from agentenvs.client.calls import Call
from agentenvs.core.errors import ConfigError

TOKEN_VARIABLE = "AGENTENVS_TOKEN"
"""Environment variable that holds the token of a server, where none is given."""

ROUTE_HEADER = "X-Agentenvs-Route"
"""Tells a proxy, where the path does not, which of several workers has the sessions of a request in memory."""

_CONNECT_SECONDS = 10.0


class Endpoint:
    """Where a server is, and what every request to it says.

    Args:
        url: Up to where ``/v1`` begins.
        token: Sent as a bearer token; that of ``AGENTENVS_TOKEN`` where None.

    Raises:
        ConfigError: The URL is none, or holds what belongs elsewhere; the token cannot be sent.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = _parsed(url)
        self.host = self.url.netloc.decode("ascii")
        self.path = self.url.path.rstrip("/").removesuffix("/v1")
        self.said = {
            "User-Agent": f"agentenvs/{__version__}",
            **_authorization(os.environ.get(TOKEN_VARIABLE) if token is None else token),
        }
        """Headers of every request and of every socket."""
        self._headers = httpx.Headers(
            {"Host": self.host, "Accept": "application/json", "Accept-Encoding": "identity", **self.said}
        )
        self._with_body = httpx.Headers({**self._headers, "Content-Type": "application/json"})
        self._last = ("", self.url)

    def __repr__(self) -> str:
        """Return the address without anything secret."""
        return f"Endpoint({self.key})"

    @property
    def key(self) -> str:
        """The address without anything secret."""
        return f"{self.url.scheme}://{self.host}{self.path}"

    def request(self, call: Call, seconds: float) -> httpx.Request:
        """Return a request ready to be sent."""
        path, url = self._last
        if path != call.path:
            url = self.url.copy_with(raw_path=f"{self.path}{call.path}".encode())
            self._last = (call.path, url)
        limits = {"connect": min(seconds, _CONNECT_SECONDS), "read": seconds, "write": seconds, "pool": seconds}
        headers = self._headers if call.body is None else self._with_body
        if call.op == "steps" and call.route:  # of all else the path tells which worker is best asked
            headers = httpx.Headers({**headers, ROUTE_HEADER: call.route})
        if call.bearer:
            headers = httpx.Headers({**headers, **_authorization(call.bearer)})
        return httpx.Request(call.method, url, headers=headers, content=call.body, extensions={"timeout": limits})

    def proxy(self) -> str | None:
        """Return the proxy that the shell sets for this address; never one for this machine itself."""
        if address_class(self.url.host) == "loopback" or urllib.request.proxy_bypass(self.host):
            return None
        return urllib.request.getproxies().get(self.url.scheme)


def address_class(host: str) -> Literal["public", "private", "loopback"]:
    """Return what kind of address a host is, from its name alone."""
    if host == "localhost" or host.endswith(".localhost"):
        return "loopback"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "public" if "." in host and not host.endswith((".local", ".internal", ".lan")) else "private"
    return "loopback" if address.is_loopback else "private" if address.is_private else "public"


def _parsed(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise ConfigError("the URL of the server is none", why=str(error), fix="write http://HOST:PORT") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigError("the URL of the server is none", fix="write http://HOST:PORT or https://HOST")
    if parsed.userinfo or parsed.query or parsed.fragment:
        # It may be a secret, and URLs stand in messages and manifests.
        raise ConfigError(
            "the URL of the server has a user, a query or a fragment",
            fix="give a token as token=, or in AGENTENVS_TOKEN",
        )
    return parsed


def _authorization(token: str | None) -> dict[str, str]:
    if not token:
        return {}
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("the token cannot be sent", why="a token is printable ASCII without blanks")
    return {"Authorization": f"Bearer {token}"}
