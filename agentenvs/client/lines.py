"""One connection to one server, blocking and asynchronous, through every kind of weather.

Each session has a line of its own: a pool shared by many sessions costs milliseconds a call. Requests go to httpx's
transports directly, since cookies, redirects and hooks are not needed and cost half of the time. A line asks again
after broken connections, time-outs, 502, 503 and 504, which is safe because every request of the protocol has one
effect however often it is sent; a refusal is never asked again.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from functools import cache
from ssl import SSLContext

import httpx

from agentenvs.client.calls import Answer, Call, Dialogue, T
from agentenvs.client.endpoint import Endpoint
from agentenvs.client.retrying import retry_after
from agentenvs.client.settings import ClientSettings
from agentenvs.core.aio import run_sync
from agentenvs.core.errors import ServiceError

MAX_REPLY_BYTES = 1 << 28
"""Bytes of a reply that are read."""

GOODBYE_SECONDS = 2.0
"""What closing a session may cost; one that is not closed expires by itself."""

_KEPT_SECONDS = 60.0
_AGAIN = frozenset({502, 503, 504})


class _Patience:
    """Counts the attempts of one request, and says how long to wait before the next."""

    def __init__(self, host: str, settings: ClientSettings, call: Call) -> None:
        self._host = host
        self._settings = settings
        self._left = 0 if call.once else settings.retries
        self._tries = 0
        self.seconds = min(settings.timeout, GOODBYE_SECONDS) if call.once else settings.timeout

    def after(self, why: str, asked: float | None = None) -> float:
        """Return the seconds to wait after a failed attempt.

        Raises:
            ServiceError: There is no further attempt.
        """
        self._tries += 1
        if self._tries > self._left:
            raise ServiceError(
                f"the server at {self._host} stays away",
                why=f"{self._tries} attempt(s) failed, the last with: {why}",
                fix="check the URL and that the server runs, or allow more retries or a longer timeout",
            )
        # Spread, so that many sessions that were refused together do not come back together.
        spread = 0.5 + secrets.randbelow(1024) / 1024
        wait = self._settings.backoff * 2.0 ** min(self._tries - 1, 30) * spread
        return min(wait + (asked or 0.0), self._settings.max_wait)


class Line:
    """A blocking line; belongs to one thread at a time, but any thread may hang up.

    Args:
        endpoint: The server.
        settings: Patience.
        transport: What carries the requests; a connection of its own where None.
    """

    def __init__(
        self, endpoint: Endpoint, settings: ClientSettings, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.endpoint = endpoint
        self._settings = settings
        self._own = transport is None
        self._transport = transport or httpx.HTTPTransport(
            verify=_tls(), trust_env=False, proxy=endpoint.proxy(), limits=_limits()
        )
        self._hung_up = threading.Event()

    def carry(self, dialogue: Dialogue[T]) -> T:
        """Hold a dialogue and return what came of it.

        Raises:
            ServiceError: The server stays away, or its answers make no sense.
        """
        try:
            call = next(dialogue)
            while True:
                call = dialogue.send(self._ask(call))
        except StopIteration as done:
            value: T = done.value
            return value

    def hang_up(self) -> None:
        """Give up the connection, and all waiting for another. May be called twice."""
        self._hung_up.set()
        if self._own:
            self._transport.close()

    def pick_up(self) -> None:
        """Take up again a line that was hung up."""
        self._hung_up.clear()

    def _ask(self, call: Call) -> Answer:
        patience = _Patience(self.endpoint.host, self._settings, call)
        while True:
            try:
                answer = self._attempt(call, patience.seconds)
            except (httpx.TransportError, httpx.StreamError) as error:
                wait = patience.after(_named(error))
            else:
                if answer.status not in _AGAIN:
                    return answer
                wait = patience.after(f"status {answer.status}", answer.retry_after)
            if self._hung_up.wait(wait):
                raise ServiceError(f"the line to {self.endpoint.host} was closed while it waited for an answer")

    def _attempt(self, call: Call, seconds: float) -> Answer:
        deadline = time.monotonic() + seconds
        response = self._transport.handle_request(self.endpoint.request(call, seconds))
        parts, size = [], 0
        try:
            for chunk in response.iter_raw():
                parts.append(chunk)
                size += len(chunk)
                _check(size, deadline, self.endpoint.host)
        finally:
            response.close()
        return Answer(response.status_code, retry_after(response.headers), b"".join(parts))


class AsyncLine:
    """The same for callers on an event loop; belongs to one loop.

    Args:
        endpoint: The server.
        settings: Patience.
        transport: What carries the requests; a connection of its own where None.
    """

    def __init__(
        self, endpoint: Endpoint, settings: ClientSettings, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.endpoint = endpoint
        self._settings = settings
        self._own = transport is None
        self._transport = transport or httpx.AsyncHTTPTransport(
            verify=_tls(), trust_env=False, proxy=endpoint.proxy(), limits=_limits()
        )

    async def carry(self, dialogue: Dialogue[T]) -> T:
        """Hold a dialogue and return what came of it; see :meth:`Line.carry`."""
        try:
            call = next(dialogue)
            while True:
                call = dialogue.send(await self._ask(call))
        except StopIteration as done:
            value: T = done.value
            return value

    async def hang_up(self) -> None:
        """Give up the connection. May be called twice."""
        if self._own:
            await self._transport.aclose()

    async def _ask(self, call: Call) -> Answer:
        patience = _Patience(self.endpoint.host, self._settings, call)
        while True:
            try:
                answer = await self._attempt(call, patience.seconds)
            except (httpx.TransportError, httpx.StreamError, TimeoutError) as error:
                wait = patience.after(_named(error))
            else:
                if answer.status not in _AGAIN:
                    return answer
                wait = patience.after(f"status {answer.status}", answer.retry_after)
            await asyncio.sleep(wait)

    async def _attempt(self, call: Call, seconds: float) -> Answer:
        async with asyncio.timeout(seconds):
            response = await self._transport.handle_async_request(self.endpoint.request(call, seconds))
            parts, size = [], 0
            try:
                async for chunk in response.aiter_raw():
                    parts.append(chunk)
                    size += len(chunk)
                    _check(size, None, self.endpoint.host)
            finally:
                await response.aclose()
        return Answer(response.status_code, retry_after(response.headers), b"".join(parts))


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


def _check(size: int, deadline: float | None, host: str) -> None:
    if size > MAX_REPLY_BYTES:
        raise ServiceError(f"{host} answers with more than {MAX_REPLY_BYTES} bytes")
    if deadline is not None and time.monotonic() > deadline:
        raise httpx.ReadTimeout("the reply did not end in time")


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200].rstrip(": ")


def _limits() -> httpx.Limits:
    return httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_KEPT_SECONDS)


@cache
def _tls() -> SSLContext:
    """Return one TLS context for all lines: making one takes tens of milliseconds."""
    return httpx.create_ssl_context()
