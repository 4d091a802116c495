"""Connections whose clients may be slow or hostile: the head of a request has a time and a size.

uvicorn bounds neither. Without a bound, half a request line holds a connection for ever, and a header without end holds
memory. Bodies have bounds of their own, see :mod:`~agentenvs_servers.bodies`; what is still sent of a body after its
answer counts here as a head that does not come. What is no HTTP at all is answered as a problem as well.

A client that reads nothing of what was written to it is cut off, also where its connection is to be closed: a mere
closing would wait for it. Beyond the most connections a request is answered that there are too many, whatever it is.

A socket has bounds of its own: frames have a size, and a client that does not answer pings is cut off, also where it
reads nothing of what was written to it already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.http11 import Response

from agentenvs_servers.problems import MEDIA_TYPE, ProblemError, phrase
from agentenvs_servers.settings import Settings

HEAD_SECONDS = 10.0
"""In which the head of a request must arrive, from the first byte on (of a new connection: from its making)."""

MOST_HEAD_BYTES = 65_536

DIRECT = "agentenvs.direct"
"""Name of the extension under which a socket's scope holds its :class:`SocketConnection`."""

SUPERFLUOUS_SECONDS = 1.0
"""In which a connection beyond the most must have sent something, to be told that it is."""


class Config(uvicorn.Config):
    """uvicorn's configuration, and the limits of the server.

    Args:
        app: The application.
        limits: The limits.
        **more: uvicorn's own.
    """

    def __init__(self, app: Any, limits: Settings, **more: Any) -> None:
        super().__init__(app, http=Connection, ws=SocketConnection, **more)
        self.limits = limits


class Connection(HttpToolsProtocol):
    """One connection; see :class:`uvicorn.protocols.http.httptools_impl.HttpToolsProtocol`."""

    _timer: asyncio.TimerHandle | None = None
    _head_bytes: int | None = None
    """Bytes of a head that is not complete; None where none has begun."""

    _is_near = False
    """Whether the head may have become too long with what came last."""
    _is_superfluous = False
    _reader: asyncio.TimerHandle | None = None
    _unread = 0
    """Bytes that the client had not read when it was looked at last."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Addresses hold secrets, and uvicorn logs them wherever its access log has a handler, whoever gave it one.
        self.access_log = False
        self._limits: Settings = self.config.limits  # type: ignore[attr-defined]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._is_superfluous = len(self.connections) > self._limits.max_connections
        self._arm(SUPERFLUOUS_SECONDS if self._is_superfluous else HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._disarm()
        if self._reader is not None:
            self._reader.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; what belongs to no request that runs must soon become one."""
        if self._is_superfluous:
            said = f"the limit is {self._limits.max_connections}"
            self._refuse(ProblemError("too_many_connections", said, headers={"Retry-After": "1"}))
            return
        self._is_near = (self._head_bytes or 0) + len(data) > MOST_HEAD_BYTES
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:  # it has become a socket
            return
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._refuse_head()
                return
        if self._timer is None and not self._is_answering():
            self._arm(HEAD_SECONDS)

    def on_message_begin(self) -> None:
        """Begin to count."""
        super().on_message_begin()
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Leave the rest to the application.

        Raises:
            OverflowError: The head is too long; taken by the parser as what is no HTTP.
        """
        if self._is_near and len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > (
            MOST_HEAD_BYTES
        ):
            self._refuse_head()
            raise OverflowError
        self._head_bytes = None
        self._disarm()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        if not self.transport.is_closing():  # else it has been answered
            self._refuse(ProblemError("bad_http"))

    def pause_writing(self) -> None:
        """Watch whether the client reads, until it has read all."""
        super().pause_writing()
        self._watch()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that nothing was asked on for long."""
        super().timeout_keep_alive_handler()
        self._watch()

    def _watch(self) -> None:
        if self._reader is None:
            self._unread = self.transport.get_write_buffer_size()
            self._reader = self.loop.call_later(self._limits.write_seconds, self._look)

    def _look(self) -> None:
        self._reader = None
        left = self.transport.get_write_buffer_size()
        if left >= self._unread > 0:
            self.transport.abort()
        elif left:
            self._watch()

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = getattr(self, "cycle", None)
        return cycle is not None and not cycle.response_complete

    def _arm(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self._head_bytes:
            self._refuse(ProblemError("request_slow", f"a head must arrive within {HEAD_SECONDS:g} s"))
        else:
            self.transport.close()

    def _refuse_head(self) -> None:
        self._refuse(ProblemError("head_too_large", f"the limit is {MOST_HEAD_BYTES} bytes"))

    def _refuse(self, problem: ProblemError) -> None:
        head = [
            STATUS_LINE[problem.status],
            b"content-type: %b\r\n" % MEDIA_TYPE.encode(),
            b"content-length: %d\r\n" % len(problem.body),
            *(b"%b: %b\r\n" % (name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
            b"connection: close\r\n\r\n",
        ]
        self.transport.write(b"".join([*head, problem.body]))
        self.transport.close()
        self._watch()


class SocketConnection(WebSocketsSansIOProtocol):
    """One socket; see :class:`uvicorn.protocols.websockets.websockets_sansio_impl.WebSocketsSansIOProtocol`.

    An application that finds this object in its scope (:data:`DIRECT`) may take frames and send answers without the
    queue and the events in between, which cost as much as a step.
    """

    _taker: Callable[[bytes], None] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        accept = self.conn.accept
        self.conn.accept = lambda request: _told(accept(request))  # type: ignore[method-assign]

    def handle_connect(self, event: Any) -> None:
        """Let the application find this object, and take note that a refusal completes the handshake."""
        super().handle_connect(event)
        scope: dict[str, Any] | None = getattr(self, "scope", None)
        if scope is not None:
            scope["extensions"][DIRECT] = self
            self.app = self._completing(self.app)

    def _completing(self, app: Any) -> Any:
        async def completed(scope: Any, receive: Any, send: Any) -> None:
            await app(scope, receive, send)
            if self.initial_response is not None:
                self.handshake_complete = True

        return completed

    def keepalive_timeout(self) -> None:
        """Cut off a client that is not there; what it has not read by now would keep a mere closing waiting."""
        super().keepalive_timeout()
        self.transport.abort()

    # ---- the direct way --------------------------------------------------------------------------------------------

    def take_frames(self, taker: Callable[[bytes], None]) -> None:
        """Hand every further text frame to a function; those of bytes, and the end, go on being events."""
        self._taker = taker

    def take_no_more(self) -> None:
        """Close, since what came as text was none."""
        self.conn.fail(1007, "text is UTF-8")
        self.handle_parser_exception()

    def hold(self, wait: bool) -> None:
        """Read nothing further, or go on."""
        if self.transport.is_closing() or wait == self.read_paused:
            return
        self.read_paused = wait
        if wait:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def push(self, answer: bytes) -> bool:
        """Send a text frame; False where the client does not read, or is gone, and ``send`` must find out which."""
        if not self.writable.is_set() or self.disconnected or self.close_sent:
            return False
        try:
            self.conn.send_text(answer)
        except InvalidState:
            return False
        self.transport.write(b"".join(self.conn.data_to_send()))
        return True

    def send_receive_event_to_app(self) -> None:
        """Hand on a frame."""
        if self._taker is None or self.curr_msg_data_type != "text" or self.close_sent:
            super().send_receive_event_to_app()
            return
        frames, self.frames = self.frames, []
        self._taker(bytes(frames[0]) if len(frames) == 1 else b"".join(frames))


def _told(response: Response) -> Response:
    """Return the answer to a handshake; a problem where it is refused."""
    if response.status_code == 101:
        return response
    code = "method_unknown" if response.status_code == 405 else "bad_http"
    problem = ProblemError(code, bytes(response.body or b"").decode("utf-8", "replace").strip())
    for name in ("Content-Type", "Content-Length"):
        del response.headers[name]
    response.headers["Content-Type"] = MEDIA_TYPE
    response.headers["Content-Length"] = str(len(problem.body))
    return replace(response, status_code=problem.status, reason_phrase=phrase(problem.status), body=problem.body)
