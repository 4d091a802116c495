"""The proxy as an ASGI application: routes, keys, bodies; and what ends a call before its time.

A call ends early when its caller goes away or its episode is over; the endpoint is let go of at once in either case.
Every answer that is an error has the shape of the API that was asked, and tells the official clients not to ask again:
the proxy has done that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

from agentenvs.core.canon import JSON
from agentenvs.harness.chat import cleaned
from agentenvs.harness.proxy.backend import Backend
from agentenvs.harness.proxy.chat import Chat
from agentenvs.harness.proxy.exchange import Exchange
from agentenvs.harness.proxy.forms import SPENT, Dialect, Form, Refused, bad
from agentenvs.harness.proxy.ledger import Account, Ledger
from agentenvs.harness.proxy.messages import Messages
from agentenvs.harness.proxy.responses import Responses
from agentenvs.harness.proxy.settings import ProxySettings

MAX_BODY_BYTES = 8 << 20
BODY_SECONDS = 30.0
"""How long a request's body may take to arrive."""

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_DIALECTS: Mapping[str, Dialect] = {dialect.path: dialect for dialect in (Chat(), Responses(), Messages())}
_PASSED_HEADERS = ("anthropic-version", "anthropic-beta", "openai-beta")


class App:
    """The proxy's application.

    Args:
        settings: Which model, where, and what an episode may use.
        ledger: The episodes.
    """

    def __init__(self, settings: ProxySettings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger
        self._backend: Backend | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        path = scope["path"].rstrip("/").removeprefix("/v1")
        answer, dialect = _Answer(send), _DIALECTS.get(path)
        try:
            account = self._ledger.find(_key(scope))
            if path == "/models" or path.startswith("/models/"):
                await answer.whole(200, self._models(path.removeprefix("/models").lstrip("/")))
            elif dialect is None:
                raise Refused(404, f"no {scope['path']} here; there are {', '.join(_DIALECTS)} and /models")
            elif scope["method"] != "POST":
                raise Refused(405, f"{scope['path']} takes POST")
            else:
                await self._call(account, dialect, scope, receive, answer)
        except Refused as refused:
            shown = dialect or (Messages() if _header(scope, b"x-api-key") else Chat())
            status = 402 if refused.code == SPENT and shown.name == "messages" else refused.status
            if not answer.begun:
                await answer.whole(status, shown.error(refused))

    async def close(self) -> None:
        """Close the connections to the endpoint."""
        if self._backend is not None:
            await self._backend.close()

    async def _call(self, account: Account, dialect: Dialect, scope: Scope, receive: Receive, answer: _Answer) -> None:
        data = await _body(scope, receive)
        if self._backend is None:
            self._backend = Backend(self._settings)
        headers = {name: value for name in _PASSED_HEADERS if (value := _header(scope, name.encode()))}
        exchange = Exchange(account, dialect, _parsed(data), len(data), headers, self._settings)
        tasks = [
            asyncio.ensure_future(work)
            for work in (exchange.run(self._backend, answer), _gone(receive), account.ended.wait())
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        call, left, _ = tasks
        if not call.cancelled():
            call.result()
        elif not left.done() or left.cancelled():
            raise Refused(401, "the episode of this key is over", code="invalid_api_key")

    def _models(self, name: str) -> Form:
        """Return the one model there is; in the forms of both makers."""
        known = self._settings.model.model
        if name and name != known:
            raise Refused(404, f"no model {name!r} here; there is {known!r}")
        entry = {"id": known, "object": "model", "created": 0, "owned_by": "endpoint", "type": "model"}
        entry.update(display_name=known, created_at="1970-01-01T00:00:00Z")
        if name:
            return entry
        return {"object": "list", "data": [entry], "has_more": False, "first_id": known, "last_id": known}


class _Answer:
    def __init__(self, send: Send) -> None:
        self.begun = False
        self._send = send

    async def whole(self, status: int, form: Form) -> None:
        data = json.dumps(form, ensure_ascii=False).encode("utf-8", "replace")
        more = [(b"content-length", str(len(data)).encode())]
        if status >= 400:
            more.append((b"x-should-retry", b"false"))
        await self._start(status, b"application/json", more)
        await self._send({"type": "http.response.body", "body": data})

    async def part(self, data: bytes) -> None:
        if not self.begun:
            await self._start(200, b"text/event-stream; charset=utf-8", [(b"cache-control", b"no-store")])
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def _start(self, status: int, kind: bytes, more: list[tuple[bytes, bytes]]) -> None:
        self.begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *more]})


def _header(scope: Scope, wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), "")


def _key(scope: Scope) -> str:
    kind, _, key = _header(scope, b"authorization").partition(" ")
    return key.strip() if kind.lower() == "bearer" and key else _header(scope, b"x-api-key")


async def _gone(receive: Receive) -> None:
    """Return when the caller has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(scope: Scope, receive: Receive) -> bytes:
    """Return a request's body.

    Raises:
        Refused: It is too long, or does not come.
    """
    said, data, more = _header(scope, b"content-length"), bytearray(), True
    too_long = Refused(413, f"a request has at most {MAX_BODY_BYTES} bytes")
    if said.isdigit() and int(said) > MAX_BODY_BYTES:
        raise too_long
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "the request broke off")
                data += message.get("body", b"")
                more = message.get("more_body", False)
                if len(data) > MAX_BODY_BYTES:
                    raise too_long
    except TimeoutError:
        raise Refused(408, f"the request's body did not come in {BODY_SECONDS:g} s") from None
    return bytes(data)


def _parsed(data: bytes) -> Form:
    try:
        form: JSON = cleaned(json.loads(data, parse_constant=_no_number), str)
    except (ValueError, RecursionError) as error:
        raise bad(f"the body is no JSON: {error}"[:300]) from error
    if not isinstance(form, dict):
        raise bad("the body is no JSON object")
    return form


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")
