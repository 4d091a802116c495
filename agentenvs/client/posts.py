"""One attempt over HTTP, blocking and asynchronous.

Each line has a connection of its own: a pool shared by many sessions costs milliseconds a call. Requests go to httpx's
transports directly, since cookies, redirects and hooks are not needed and cost half of the time.
"""

from __future__ import annotations

import asyncio
import time
from functools import cache
from ssl import SSLContext

import httpx

from agentenvs.client.calls import Answer, Call
from agentenvs.client.channels import MAX_REPLY_BYTES
from agentenvs.client.endpoint import Endpoint
from agentenvs.client.retrying import retry_after
from agentenvs.core.aio import run_sync
from agentenvs.core.errors import ServiceError

_KEPT_SECONDS = 60.0


class Post:
    """A blocking connection.

    Args:
        endpoint: The server.
        transport: What carries the requests; a connection of its own where None.
    """

    def __init__(self, endpoint: Endpoint, transport: httpx.BaseTransport | None = None) -> None:
        self._endpoint = endpoint
        self._own = transport is None
        self._transport = transport or httpx.HTTPTransport(
            verify=tls(), trust_env=False, proxy=endpoint.proxy(), limits=_limits()
        )

    def attempt(self, call: Call, seconds: float) -> Answer:
        """Send a request and return its answer.

        Raises:
            httpx.TransportError: There was none.
            ServiceError: It has no end.
        """
        deadline = time.monotonic() + seconds
        response = self._transport.handle_request(self._endpoint.request(call, seconds))
        parts, size = [], 0
        try:
            for chunk in response.iter_raw():
                parts.append(chunk)
                size += len(chunk)
                _check(size, deadline, self._endpoint.host)
        finally:
            response.close()
        return Answer(response.status_code, retry_after(response.headers), b"".join(parts))

    def close(self) -> None:
        """Give up the connection; a further attempt opens another."""
        if self._own:
            self._transport.close()


class AsyncPost:
    """The same for callers on an event loop.

    Args:
        endpoint: The server.
        transport: What carries the requests; a connection of its own where None.
    """

    def __init__(self, endpoint: Endpoint, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._endpoint = endpoint
        self._own = transport is None
        self._transport = transport or httpx.AsyncHTTPTransport(
            verify=tls(), trust_env=False, proxy=endpoint.proxy(), limits=_limits()
        )

    async def attempt(self, call: Call, seconds: float) -> Answer:
        """Send a request and return its answer; see :meth:`Post.attempt`."""
        async with asyncio.timeout(seconds):
            response = await self._transport.handle_async_request(self._endpoint.request(call, seconds))
            parts, size = [], 0
            try:
                async for chunk in response.aiter_raw():
                    parts.append(chunk)
                    size += len(chunk)
                    _check(size, None, self._endpoint.host)
            finally:
                await response.aclose()
        return Answer(response.status_code, retry_after(response.headers), b"".join(parts))

    async def close(self) -> None:
        """Give up the connection."""
        if self._own:
            await self._transport.aclose()


class AppTransport(httpx.BaseTransport):
    """Carries the requests of blocking clients to an ASGI application in this process, without a socket.

    The application runs on the shared background loop; any number of clients may use one of these.
    """

    def __init__(self, app: httpx.ASGITransport) -> None:
        self._app = app

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the application's reply."""
        return run_sync(self._answered(request))

    async def _answered(self, request: httpx.Request) -> httpx.Response:
        response = await self._app.handle_async_request(request)
        content = await response.aread()
        return httpx.Response(response.status_code, headers=response.headers, stream=httpx.ByteStream(content))


@cache
def tls() -> SSLContext:
    """Return one TLS context for all connections: making one takes tens of milliseconds."""
    return httpx.create_ssl_context()


def _check(size: int, deadline: float | None, host: str) -> None:
    if size > MAX_REPLY_BYTES:
        raise ServiceError(f"{host} answers with more than {MAX_REPLY_BYTES} bytes")
    if deadline is not None and time.monotonic() > deadline:
        raise httpx.ReadTimeout("the reply did not end in time")


def _limits() -> httpx.Limits:
    return httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_KEPT_SECONDS)
