"""Requests to the endpoint, through every kind of weather.

As patient as :class:`~agentenvs.harness.chat.ChatClient`: it asks again after time-outs, broken connections, 408, 409,
425, 429, 5xx and bodies that hold no answer, with ``Retry-After`` honoured up to a maximum. A stream that has begun is
not asked for again, since its beginning has been passed on. The endpoint's key is blotted out of whatever comes back.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import httpx

from agentenvs._version import __version__
from agentenvs.client.retrying import retry_after
from agentenvs.core.canon import JSON, clean_text
from agentenvs.harness.chat import MAX_REPLY_BYTES, MIN_SECRET, RETRIED, cleaned, said, tls
from agentenvs.harness.proxy import sse
from agentenvs.harness.proxy.forms import Form
from agentenvs.harness.proxy.settings import ProxySettings

T = TypeVar("T")

MAX_ERROR_BYTES = 65_536
"""Bytes of an error's body that are read."""
MAX_STREAM_BYTES = 16 * MAX_REPLY_BYTES
"""Bytes of a stream: each token comes in a form of its own, many times its size."""
_BLOT = "[key]"
_OWN_MISTAKE = (401, 403)
"""Statuses that speak of the endpoint's key, which is no affair of a program's."""


class BackendError(Exception):
    """The endpoint gave no answer.

    Args:
        status: What the program is told.
        message: Why.
        begun: Whether an answer had begun.
    """

    def __init__(self, status: int, message: str, *, begun: bool = False) -> None:
        super().__init__(message)
        self.status, self.message, self.begun = status, message, begun


class _Again(BackendError):
    """This attempt failed and another may not."""

    def __init__(self, status: int, message: str, wait: float | None = None) -> None:
        super().__init__(status, message)
        self.wait = wait


class Backend:
    """The endpoint; belongs to one event loop.

    Args:
        settings: Where it is, its key, and how patient to be.
    """

    def __init__(self, settings: ProxySettings) -> None:
        model = settings.model
        self._model = model
        self._key = model.key()
        headers = {"User-Agent": f"agentenvs/{__version__}", "Accept-Encoding": "identity"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._http = httpx.AsyncClient(headers=headers, timeout=model.timeout, verify=tls(), limits=limits)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ask(
        self, path: str, body: Form, headers: Mapping[str, str], attempts: list[dict[str, JSON]], *, holds: str
    ) -> Form:
        """Return the answer to a request.

        Args:
            path: After ``/v1``.
            body: The request.
            headers: Beside the usual ones.
            attempts: Told of each try.
            holds: A field that each answer has.

        Raises:
            BackendError: There is none.
        """

        async def attempt() -> Form:
            response = await self._send(path, body, headers)
            try:
                data, whole = await _read(response, MAX_REPLY_BYTES)
            finally:
                await response.aclose()
            if not whole:
                raise BackendError(502, f"the model endpoint's reply has more than {MAX_REPLY_BYTES} bytes")
            return self._answer(data, holds)

        return await self._patiently(attempt, attempts)

    @asynccontextmanager
    async def stream(
        self, path: str, body: Form, headers: Mapping[str, str], attempts: list[dict[str, JSON]]
    ) -> AsyncIterator[AsyncIterator[tuple[str, Form]]]:
        """Give the events of an answer, each its name and its data; see :meth:`ask`.

        Raises:
            BackendError: There is none, or, while it is read, it breaks off.
        """
        response = await self._patiently(lambda: self._send(path, body, headers), attempts)
        deadline = asyncio.get_running_loop().time() + self._model.timeout
        try:
            yield self._events(response, deadline)
        finally:
            await response.aclose()

    # ---- the machinery ---------------------------------------------------------------------------------------------

    async def _patiently(self, attempt: Callable[[], Awaitable[T]], attempts: list[dict[str, JSON]]) -> T:
        failure: _Again | None = None
        for number in range(self._model.retries + 1):
            if failure is not None:
                await self._pause(attempts[-1], failure.wait, number)
            started = time.monotonic()
            try:
                async with asyncio.timeout(self._model.timeout):
                    made = await attempt()
            except TimeoutError:
                failure = _Again(504, f"the model endpoint did not answer in {self._model.timeout:g} s")
            except _Again as error:
                failure = error
            except BackendError as error:
                attempts.append(_line(error.message, started))
                raise
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
                failure = _Again(502, self.clean(f"the model endpoint is away: {type(error).__name__}: {error}"[:300]))
            else:
                attempts.append(_line(None, started))
                return made
            attempts.append(_line(failure.message, started))
        if failure is None:
            raise BackendError(502, "the model endpoint was not asked")
        raise BackendError(failure.status, f"{failure.message} ({len(attempts)} attempts)")

    async def _pause(self, line: dict[str, JSON], asked: float | None, number: int) -> None:
        wait = asked
        if wait is None:
            # Spread, so that many players that were refused together do not come back together.
            wait = self._model.backoff * 2 ** (number - 1) * (0.75 + secrets.randbelow(512) / 1024)
        wait = min(wait, self._model.max_wait)
        line["waited"] = round(wait, 3)
        await asyncio.sleep(wait)

    async def _send(self, path: str, body: Form, headers: Mapping[str, str]) -> httpx.Response:
        """Return an answer of status 200 whose body is still to be read."""
        more = {"Content-Type": "application/json", **headers}
        if self._key is not None and path == "/messages":
            more["x-api-key"] = self._key
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        request = self._http.build_request("POST", f"{self._model.url}{path}", content=content, headers=more)
        response = await self._http.send(request, stream=True)
        if response.status_code == 200:
            return response
        try:
            data, _ = await _read(response, MAX_ERROR_BYTES)
        finally:
            await response.aclose()
        raise self._refusal(response, self.clean(said(data.decode("utf-8", "replace"))))

    def _refusal(self, response: httpx.Response, message: str) -> BackendError:
        status = response.status_code
        if status in RETRIED or status >= 500:
            return _Again(status, message or f"status {status}", retry_after(response.headers))
        if status in _OWN_MISTAKE:
            # It may quote the key or a part of it.
            return BackendError(502, f"the model endpoint does not take the proxy's key: status {status}")
        if status < 400:
            return BackendError(502, f"the model endpoint answers with status {status}")
        return BackendError(status, message)

    def _answer(self, data: bytes, holds: str) -> Form:
        try:
            form = cleaned(json.loads(data, parse_constant=lambda _: None), self.clean)
        except (ValueError, RecursionError) as error:
            raise _Again(502, f"the model endpoint's body is no JSON: {error}"[:300]) from error
        found = form.get(holds) if isinstance(form, dict) else None
        if not isinstance(form, dict) or not isinstance(found, list) or (holds == "choices" and not found):
            raise _Again(502, f"the model endpoint's body has no {holds}: {said(self._text(data))}")
        return form

    async def _events(self, response: httpx.Response, deadline: float) -> AsyncIterator[tuple[str, Form]]:
        try:
            if "event-stream" not in response.headers.get("content-type", ""):
                async with asyncio.timeout_at(deadline):
                    data, _ = await _read(response, MAX_REPLY_BYTES)
                yield "whole", self._whole(data)
                return
            async for name, text in _events(response, deadline):
                if text == sse.DONE:
                    yield "done", {}
                    return
                yield name, self._event(text)
        except TimeoutError:
            raise broken(f"the model endpoint's stream did not end in {self._model.timeout:g} s") from None
        except sse.Malformed as error:
            raise broken(f"the model endpoint's stream is malformed: {error}") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise broken(self.clean(f"the model endpoint's stream broke off: {type(error).__name__}")) from error

    def _whole(self, data: bytes) -> Form:
        try:
            form = cleaned(json.loads(data, parse_constant=lambda _: None), self.clean)
        except (ValueError, RecursionError):
            form = None
        if not isinstance(form, dict):
            raise broken(f"the model endpoint answers no stream and no JSON: {said(self._text(data))}")
        return form

    def _event(self, data: str) -> Form:
        try:
            form = cleaned(json.loads(data, parse_constant=lambda _: None), self.clean)
        except (ValueError, RecursionError) as error:
            raise sse.Malformed(f"an event is no JSON: {error}"[:200]) from error
        if not isinstance(form, dict):
            raise sse.Malformed("an event is no JSON object")
        if isinstance(problem := form.get("error"), dict | str) and problem:
            raise broken(f"the model endpoint says: {said(json.dumps(problem))}")
        return form

    def _text(self, data: bytes) -> str:
        return self.clean(data.decode("utf-8", "replace"))

    def clean(self, text: str) -> str:
        """Return text that can be stored and passed on: no lone surrogates, no key."""
        text = clean_text(text)
        return text if self._key is None or len(self._key) < MIN_SECRET else text.replace(self._key, _BLOT)


def broken(message: str) -> BackendError:
    """Return the error of a stream that had begun."""
    return BackendError(502, message, begun=True)


async def _events(response: httpx.Response, deadline: float) -> AsyncIterator[sse.Event]:
    reader, size, parts = sse.Reader(), 0, response.aiter_bytes()
    while True:
        async with asyncio.timeout_at(deadline):
            part = await anext(parts, None)
        if part is None:
            break
        size += len(part)
        if size > MAX_STREAM_BYTES:
            raise sse.Malformed(f"more than {MAX_STREAM_BYTES} bytes")
        for event in reader.feed(part):
            yield event
    for event in reader.end():
        yield event


async def _read(response: httpx.Response, most: int) -> tuple[bytes, bool]:
    """Return the body up to a limit, and whether that is all of it."""
    parts, size = [], 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > most:
            return b"".join(parts)[:most], False
    return b"".join(parts), True


def _line(error: str | None, started: float) -> dict[str, JSON]:
    return {"error": error, "seconds": round(time.monotonic() - started, 3)}
