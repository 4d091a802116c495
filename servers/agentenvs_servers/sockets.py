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
from collections import deque
from collections.abc import Coroutine, MutableMapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from agentenvs_servers import auth, frames
from agentenvs_servers.asgi import Receive, Scope, Send, address_of
from agentenvs_servers.connection import DIRECT, SocketConnection
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

NO_TEXT = frames.refusal(None, ProblemError("invalid_request", "frames are text, not bytes"))

UNAUTHORIZED = 4401
"""How a socket is closed where the handshake cannot be answered as a problem."""

log = logging.getLogger("agentenvs.server")


async def serve(hall: Hall, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one socket until it goes away, and what it asked for has come to its end."""
    await receive()  # websocket.connect
    headers = dict(scope["headers"])
    try:
        refuse_foreign(headers)
        entered = auth.Pass(headers, hall.keyring)
    except ProblemError as problem:
        hall.metrics.problems.add(problem.code)
        await refuse(problem, scope, send)
        return
    route = hall.tools.names.route.encode()
    await send({"type": "websocket.accept", "headers": [(ROUTE_HEADER, route)]})
    direct = scope.get("extensions", {}).get(DIRECT)
    socket = Socket(hall, entered, address_of(scope), receive, send, direct)
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
        direct: The connection, where frames and answers may go past ``receive`` and ``send``.
    """

    def __init__(
        self,
        hall: Hall,
        entered: auth.Pass,
        address: str,
        receive: Receive,
        send: Send,
        direct: SocketConnection | None = None,
    ) -> None:
        self._desk = Desk(hall, entered, address)
        self._most_bytes = hall.settings.max_body_bytes
        self._receive = receive
        self._send = send
        self._direct = direct
        self._room = hall.settings.socket_requests
        """How many requests more may run."""
        self._taken = 0
        """Frames since others were last let in between."""
        self._held: deque[bytes] = deque()
        """Frames that came and wait for room."""
        self._freed = asyncio.Event()
        self._open: set[asyncio.Future[Any]] = set()
        """Requests that wait for something."""
        self._written = 0
        """Turns that are on their way to the journal."""

    async def run(self) -> None:
        """Take frames until the client is gone."""
        if self._direct is not None:
            self._direct.take_frames(self._came)
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                return
            text = message.get("text")
            if text is None:
                self._room -= 1
                self._answer(NO_TEXT)
            else:
                self._came(text.encode())
            while self._room <= 0 or self._held:
                self._freed.clear()
                await self._freed.wait()

    async def rest(self) -> None:
        """Wait until everything that runs has come to its end; what waits for room has not begun."""
        self._held.clear()
        while self._open or self._written:
            if self._open:
                await asyncio.wait(self._open)
            else:
                self._freed.clear()
                await self._freed.wait()

    # ---- in --------------------------------------------------------------------------------------------------------

    def _came(self, data: bytes) -> None:
        """Take a frame; where there is no room, or others are to be let in between, later."""
        if self._held or self._room <= 0 or self._taken >= TAKEN_AT_ONCE:
            self._held.append(data)
            if self._room <= 0 and self._direct is not None:
                self._direct.hold(True)
            return
        self._taken += 1
        if self._taken == TAKEN_AT_ONCE:
            asyncio.get_running_loop().call_soon(self._next)
        self._room -= 1
        self._take(data)

    def _next(self) -> None:
        """Go on with what waits."""
        self._taken = 0
        held, self._held = self._held, deque()
        while held and self._room > 0 and self._taken < TAKEN_AT_ONCE:
            self._came(held.popleft())
        held.extend(self._held)
        self._held = held
        if not held:
            self._freed.set()
            if self._direct is not None:
                self._direct.hold(False)

    def _free(self) -> None:
        self._room += 1
        if not self._held:
            self._freed.set()
        elif self._room == 1 and self._taken < TAKEN_AT_ONCE:  # else it is called in any case
            asyncio.get_running_loop().call_soon(self._next)

    def _take(self, data: bytes) -> None:
        try:
            frame: Frame = frames.read(data, self._most_bytes)
        except FrameError as error:
            self._desk.count(error.code)
            self._answer(error.answer)
            return
        except frames.NoTextError:
            if self._direct is not None:
                self._direct.take_no_more()
            return
        begun = self._desk.begin(frame)
        if begun is None:
            self._await(self._later(self._desk.answer(frame)))
        elif isinstance(begun, bytes):
            self._answer(begun)
        elif (pending := begun.begun.pending) is not None:
            self._written += 1
            pending.tell(partial(self._committed, begun))

    def _committed(self, waiting: Waiting) -> None:
        """Answer a turn that the journal has; where it has not, somebody must find out what is so."""
        self._written -= 1
        if waiting.begun.is_in:
            self._answer(self._desk.ended(waiting))
        else:
            self._await(self._later(self._desk.settled(waiting)))

    # ---- out -------------------------------------------------------------------------------------------------------

    async def _later(self, work: Coroutine[Any, Any, bytes]) -> None:
        await self._sent(await work)

    def _answer(self, answer: bytes) -> None:
        """Send an answer, at once where the client reads."""
        if self._direct is not None and self._direct.push(answer):
            self._free()
            return
        work = self._sent(answer)
        try:
            at_once(work)
        except NotYet as later:
            self._await(resumed(work, later))
        else:
            self._free()

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
        self._free()


def refuse_foreign(headers: dict[bytes, bytes]) -> None:
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


def telling(scope: Scope, send: Send) -> Send:
    """Return what refuses a socket at an address that has none by a problem; for the framework, which knows none."""
    begun = False

    async def sent(message: MutableMapping[str, Any]) -> None:
        nonlocal begun
        unexplained = message["type"] == "websocket.close" and not message.get("reason")
        if unexplained and not begun:
            await refuse(ProblemError("route_unknown"), scope, send)
            return
        begun = True
        await send(message)

    return sent


async def refuse(problem: ProblemError, scope: Scope, send: Send) -> None:
    """Refuse a socket, by a problem where its handshake can carry one."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": UNAUTHORIZED, "reason": problem.code})
        return
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in problem.headers.items()),
    ]
    await send({"type": "websocket.http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": problem.body})
