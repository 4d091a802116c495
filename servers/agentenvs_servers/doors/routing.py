"""Puts further protocols in front of the framework: their routes first, everything else passes through.

A door is a list of routes. Each is asked with a :class:`Call` and returns an answer, or None where it has sent one
itself (a stream, a socket). Problems are answered as everywhere, and counted under the route's template, never under
its address.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import unquote

from agentenvs_servers.asgi import App, Receive, Scope, Send
from agentenvs_servers.handlers import Answer, Handlers
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.worlds import World

SOCKET = "WS"
"""The method of a route that is a socket."""


class Call:
    """A request at a door.

    Args:
        scope: What the server interface says of it.
        receive: Gives its body, or its frames.
        send: Takes its answer.
        names: What stands in its address, by the names of the template.
    """

    __slots__ = ("headers", "names", "receive", "scope", "send")

    def __init__(self, scope: Scope, receive: Receive, send: Send, names: Mapping[str, str]) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.names = names
        self.headers: dict[bytes, bytes] = dict(scope["headers"])


Handler: TypeAlias = Callable[[Call], Awaitable[Answer | None]]


class Route(NamedTuple):
    """One route of a door."""

    method: str
    """Of HTTP, or :data:`SOCKET`; empty for any."""
    template: str
    """Address; ``{name}`` is one segment."""
    handler: Handler
    said: str
    """What it does, for the documentation."""
    prefixed: bool = True
    """Whether ``/{env}`` and ``/s/{session}`` may stand before it."""


class Door(Protocol):
    """A protocol."""

    @property
    def routes(self) -> Sequence[Route]:
        """Its routes."""

    def open(self) -> AbstractAsyncContextManager[object]:
        """Keep up what it needs while the server runs."""


class _Template(NamedTuple):
    path: str


class Doors:
    """The application with further protocols.

    Args:
        app: The framework's application.
        handlers: What answers problems.
        doors: The protocols.
    """

    def __init__(self, app: App, handlers: Handlers, doors: Sequence[Door]) -> None:
        self._app = app
        self._handlers = handlers
        self._doors = doors
        slugs = [world.spec.slug for world in handlers.hall.worlds.values()]
        self._routes = [(_pattern(route, slugs), route) for door in doors for route in door.routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            async with AsyncExitStack() as stack:
                for door in self._doors:
                    await stack.enter_async_context(door.open())
                await self._app(scope, receive, send)
            return
        method = SOCKET if scope["type"] == "websocket" else scope["method"]
        matches = [(found, route) for pattern, route in self._routes if (found := pattern.fullmatch(scope["path"]))]
        fits = [(found, route) for found, route in matches if route.method in (method, "")]
        if fits:
            found, route = fits[0]
            scope["route"] = _Template(route.template)
            names = {name: unquote(value) for name, value in found.groupdict().items() if value is not None}
            await self._answer(route, Call(scope, receive, send, names))
        elif matches and method != SOCKET:
            scope["route"] = _Template(matches[0][1].template)
            allowed = ", ".join(sorted({route.method for _, route in matches} - {SOCKET}))
            await self._send(send, await self._handlers.answered(_refused(allowed)))
        else:
            await self._app(scope, receive, send)

    async def _answer(self, route: Route, call: Call) -> None:
        if route.method == SOCKET:
            await route.handler(call)
            return
        answer = await self._handlers.answered(route.handler(call))  # type: ignore[arg-type]
        if answer is not None:
            await self._send(call.send, answer)

    async def _send(self, send: Send, answer: Answer) -> None:
        headers = {"content-type": answer.media_type, "content-length": str(len(answer.body)), **answer.headers}
        await send({"type": "http.response.start", "status": answer.status, "headers": latin(headers)})
        await send({"type": "http.response.body", "body": answer.body})

    def documented(self) -> Iterable[tuple[str, str, dict[str, Any]]]:
        """Yield path, method and OpenAPI entry of each route that is no socket."""
        for door in self._doors:
            for route in door.routes:
                names = re.findall(r"\{(\w+)\}", route.template)
                entry: dict[str, Any] = {
                    "tags": [type(door).__name__],
                    "summary": route.said,
                    "responses": {"200": {"description": "OK"}},
                }
                if names:
                    text = {"type": "string"}
                    entry["parameters"] = [{"name": n, "in": "path", "required": True, "schema": text} for n in names]
                if route.method not in (SOCKET, ""):
                    yield route.template, route.method.lower(), entry


async def _refused(allowed: str) -> Answer:
    raise ProblemError("method_unknown", headers={"Allow": allowed})


def latin(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers as the server interface takes them."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _pattern(route: Route, slugs: Iterable[str]) -> re.Pattern[str]:
    before = ""
    if route.prefixed:
        before = rf"(?:/(?P<env>{'|'.join(map(re.escape, slugs))}))?(?:/s/(?P<session>[^/]+))?"
    return re.compile(before + re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(route.template)))


def world_of(call: Call, worlds: Mapping[str, World]) -> World:
    """Return the environment that an address names; the server's first where it names none."""
    for world in worlds.values():
        if world.spec.slug == call.names.get("env", world.spec.slug):
            return world
    raise ProblemError("env_unknown", f"this server hosts: {', '.join(worlds)}")
