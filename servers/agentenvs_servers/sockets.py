"""One socket for many sessions: requests come as frames, run side by side, and are answered as they end.

Who may connect is looked at once, at the handshake; the sessions then named in the frames are secrets themselves. A
page of another site could make a browser connect here, so an ``Origin`` that is not this server's is refused.

Requests that run are bounded in number: what is beyond waits in the client's own buffers, and so does everything while
the client does not read its answers. A socket that goes away ends no session and no turn: what runs comes to its end,
and the same request over another socket is answered what this one would have been.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from agentenvs_servers import auth, frames
from agentenvs_servers.asgi import Receive, Scope, Send, address_of
from agentenvs_servers.eager import NotYet, at_once, resumed
from agentenvs_servers.failures import told
from agentenvs_servers.frames import Desk, Frame, FrameError, Waiting
from agentenvs_servers.hall import Hall
from agentenvs_servers.problems import MEDIA_TYPE, ProblemError

PATH = "/v1/ws"

ROUTE_HEADER = b"x-agentenvs-route"
"""Tells the client which worker it has reached: its sessions begin with this token."""

TAKEN_AT_ONCE = 32
"""Frames of one socket that are taken before others are let in between."""

UNAUTHORIZED = 4401
"""How a socket is closed where the handshake cannot be answered as a problem."""

log = logging.getLogger("agentenvs.server")


async def serve(hall: Hall, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one socket until it goes away, and what it asked for has come to its end."""
    await receive()  # websocket.connect
    headers = dict(scope["headers"])
    try:
        _refuse_foreign(headers)
        entered = auth.Pass(headers, hall.keyring)
    except ProblemError as problem:
        await _refuse(problem, scope, send)
        return
    route = hall.tools.names.route.encode()
    await send({"type": "websocket.accept", "headers": [(ROUTE_HEADER, route)]})
    socket = Socket(hall, entered, address_of(scope), receive, send)
    hall.metrics.sockets += 1
    try:
        await socket.run()
    finally:
        hall.metrics.sockets -= 1
        await socket.rest()


class Socket:
    """A socket that is open.

    Args:
        hall: The sessions.
        entered: What it was opened with.
        address: Of the client.
        receive: Gives frames.
        send: Takes answers.
    """

    def __init__(self, hall: Hall, entered: auth.Pass, address: str, receive: Receive, send: Send) -> None:
        self._desk = Desk(hall, entered, address)
        self._most_bytes = hall.settings.max_body_bytes
        self._free = asyncio.Semaphore(hall.settings.socket_requests)
        self._receive = receive
        self._send = send
        self._open: set[asyncio.Future[Any]] = set()
        """Requests that wait for something."""

    async def run(self) -> None:
        """Take frames until the client is gone."""
        taken = 0
        while True:
            await self._free.acquire()
            message = await self._receive()
            if message["type"] != "websocket.receive":
                return
            self._take(message.get("text"))
            taken += 1
            if taken % TAKEN_AT_ONCE == 0:
                await asyncio.sleep(0)  # frames that are there already must not keep the others waiting

    async def rest(self) -> None:
        """Wait until everything has come to its end."""
        while self._open:
            await asyncio.wait(self._open)

    def _take(self, text: str | None) -> None:
        try:
            if text is None:
                raise FrameError(None, ProblemError("invalid_request", "frames are text, not bytes"))
            frame: Frame = frames.read(text, self._most_bytes)
        except FrameError as error:
            self._answer(error.answer)
            return
        begun = self._desk.begin(frame)
        if begun is None:
            self._await(self._later(self._desk.answer(frame)))
        elif isinstance(begun, bytes):
            self._answer(begun)
        elif (pending := begun.begun.pending) is not None:
            self._open.add(pending)
            pending.add_done_callback(partial(self._committed, begun))

    def _committed(self, waiting: Waiting, pending: asyncio.Future[bool]) -> None:
        """Answer a turn that the journal has; where it has not, somebody must find out what is so."""
        self._open.discard(pending)
        if waiting.begun.is_in:
            self._answer(self._desk.ended(waiting))
        else:
            self._await(self._later(self._desk.settled(waiting)))

    async def _later(self, work: Coroutine[Any, Any, bytes]) -> None:
        await self._sent(await work)

    def _answer(self, answer: bytes) -> None:
        """Send an answer, at once where the client reads."""
        work = self._sent(answer)
        try:
            at_once(work)
        except NotYet as later:
            self._await(resumed(work, later))
        else:
            self._free.release()

    async def _sent(self, answer: bytes) -> None:
        try:
            await self._send({"type": "websocket.send", "text": answer.decode()})
        except Exception as error:  # noqa: BLE001 - boundary: the client is gone, and whatever a server makes of that
            log.debug("an answer found nobody: %s", told(error))

    def _await(self, work: Coroutine[Any, Any, None]) -> None:
        """Let something come to its end, and then room for another request."""
        task = asyncio.get_running_loop().create_task(work)
        self._open.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        self._free.release()


def _refuse_foreign(headers: dict[bytes, bytes]) -> None:
    """Refuse a page of another site.

    Raises:
        ProblemError: ``origin_foreign``.
    """
    origin = headers.get(b"origin")
    if origin is None:
        return
    try:
        ours = urlsplit(origin.decode("latin-1")).netloc.lower() == headers.get(b"host", b"").decode("latin-1").lower()
    except ValueError:
        ours = False
    if not ours:
        raise ProblemError("origin_foreign", "its Origin is another than its Host")


async def _refuse(problem: ProblemError, scope: Scope, send: Send) -> None:
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": UNAUTHORIZED, "reason": problem.code})
        return
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in problem.headers.items()),
    ]
    await send({"type": "websocket.http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": problem.body})
