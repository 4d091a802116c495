"""The routes that a run spends its time in, as plain ASGI in front of the framework: steps, batches, the socket.

A step through the framework costs five times what it costs here. Everything else passes through; so does a step whose
address is odd. Most steps over HTTP do not even come here, but by :mod:`~agentenvs_servers.express`. It is also the
outermost boundary: whatever fails behind it is logged and answered as a problem, and every request is counted, here or
there, by its route.

A request has an id: its client's ``X-Request-ID``, or one made here. It is answered back as a header, but not with
steps that went well and whose client sent none; it stands in no body.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, MutableMapping
from time import perf_counter
from typing import Any

from agentenvs_servers import logs, sockets
from agentenvs_servers.asgi import App, Receive, Scope, Send
from agentenvs_servers.bodies import ClientGone
from agentenvs_servers.express import Express
from agentenvs_servers.failures import told
from agentenvs_servers.handlers import Answer, Handlers
from agentenvs_servers.hosts import Hosts
from agentenvs_servers.metering import Route
from agentenvs_servers.problems import MEDIA_TYPE, ProblemError
from agentenvs_servers.requests import Request, current

_PREFIX = "/v1/sessions/"
_SUFFIX = "/step"
_AGENT_STEP = "/v1/agent/step"
_STEPS = "/v1/steps"

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

GONE = 499
"""What a request is counted as whose client went away before it had sent it."""

log = logging.getLogger("agentenvs.server")


class Front:
    """The application a server runs.

    Args:
        app: The framework's application, perhaps with further protocols in front of it.
        handlers: What both call.
        native: Whether the native protocol is spoken.
    """

    def __init__(self, app: App, handlers: Handlers, *, native: bool = True) -> None:
        self.app = app
        self.handlers = handlers
        self.hosts: Hosts | None = None
        """The names that it may be called by; any where None."""
        self._native = native
        self.express = Express(handlers, self._admit) if native else None
        """For connections that know it, see there."""
        self._metrics = metrics = handlers.hall.metrics
        self._step = metrics.route("POST /v1/sessions/{session}/step", "http")
        self._steps = metrics.route("POST /v1/steps", "batch")
        self._elsewhere = metrics.route("(foreign)")
        self._agent_step = metrics.route("POST /v1/agent/step", "agent")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        began = perf_counter()
        headers = dict(scope["headers"])
        request = Request(headers.get(b"x-request-id"))
        current.set(request)
        if self.hosts is not None and (refused := self._refused(self.hosts, headers)) is not None:
            self._answered(request, self._elsewhere, refused.status, began)
            await reply(refused, send, request)
            return
        hot = self._hot(scope["path"], headers, receive) if self._native and scope["method"] == "POST" else None
        if hot is None:
            await self._through(scope, receive, send, request, began)
            return
        route, work = hot
        try:
            answer = await self.handlers.answered(work)
        except ClientGone:
            self._answered(request, route, GONE, began)
            return
        except Exception as error:  # noqa: BLE001 - boundary: nothing of a failure's words may reach a client
            log.error("a step failed: %s", told(error))
            answer = self._problem(ProblemError("internal"))
        self._answered(request, route, answer.status, began)
        await reply(answer, send, request)

    def _problem(self, problem: ProblemError) -> Answer:
        self._metrics.problems.add(problem.code)
        return Answer(problem.status, problem.body, MEDIA_TYPE, problem.headers)

    def _refused(self, hosts: Hosts, headers: Mapping[bytes, bytes]) -> Answer | None:
        try:
            hosts.must_be_ours(headers)
        except ProblemError as problem:
            return self._problem(problem)
        return None

    def _admit(self, headers: Mapping[bytes, bytes]) -> None:
        if self.hosts is not None:
            self.hosts.must_be_ours(headers)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        try:
            self._admit(dict(scope["headers"]))
        except ProblemError as problem:
            self._metrics.problems.add(problem.code)
            await receive()  # websocket.connect
            await sockets.refuse(problem, scope, send)
            return
        if self._native and scope["path"] == sockets.PATH:
            await sockets.serve(self.handlers.hall, scope, receive, send)
        else:
            await self.app(scope, receive, sockets.telling(scope, send))

    async def _through(self, scope: Scope, receive: Receive, send: Send, request: Request, began: float) -> None:
        status, asked = GONE, scope["method"]
        if asked == "HEAD":  # what GET would answer, without its body
            scope = {**scope, "method": "GET"}

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request.id.encode())]
            elif asked == "HEAD":
                message["body"] = b""
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001 - boundary: the framework has answered it, and would have it logged
            log.error("a request failed: %s", told(error))
        template = getattr(scope.get("route"), "path", "(none)").replace(":path}", "}")
        method = asked if asked in _METHODS else "(other)"
        self._answered(request, self._metrics.route(f"{method} {template}"), status, began)

    def _answered(self, request: Request, route: Route, status: int, began: float) -> None:
        took = perf_counter() - began
        route.answered(status, took)
        if logs.access.isEnabledFor(logging.INFO):
            logs.told_of(request, route.name, status, took)

    def _hot(
        self, path: str, headers: Mapping[bytes, bytes], receive: Receive
    ) -> tuple[Route, Awaitable[Answer]] | None:
        if path == _STEPS:
            return self._steps, self.handlers.steps(headers, receive)
        if path == _AGENT_STEP:
            return self._agent_step, self.handlers.agent_step(headers, receive)
        if path.startswith(_PREFIX) and path.endswith(_SUFFIX):
            session = path[len(_PREFIX) : -len(_SUFFIX)]
            if session and "/" not in session:
                return self._step, self.handlers.step(headers, receive, session)
        return None


async def reply(answer: Answer, send: Send, request: Request) -> None:
    """Send an answer."""
    headers = [
        (b"content-type", answer.media_type.encode("latin-1")),
        (b"content-length", str(len(answer.body)).encode("latin-1")),
        *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()),
    ]
    if request.is_given or answer.status >= 400:
        headers.append((b"x-request-id", request.id.encode("ascii")))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
