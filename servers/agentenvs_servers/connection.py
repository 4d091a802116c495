"""Connections whose clients may be slow or hostile: the head of a request has a time and a size.

uvicorn bounds neither. Without a bound, half a request line holds a connection for ever, and a header without end holds
memory. Bodies have bounds of their own, see :mod:`~agentenvs_servers.bodies`; what is still sent of a body after its
answer counts here as a head that does not come. What is no HTTP at all is answered as a problem as well.

A client that reads nothing of what was written to it is cut off, also where its connection is to be closed: a mere
closing would wait for it. Beyond the most connections a request is answered that there are too many, whatever it is.

A step that is plain is played and answered without any of uvicorn (see :mod:`~agentenvs_servers.express`), between two
requests of its parser: nothing else runs on the connection meanwhile, and what comes is kept until it is answered.

A socket has bounds of its own: frames have a size, and a client that does not answer pings is cut off, also where it
reads nothing of what was written to it already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Response
from websockets.protocol import State

from agentenvs_servers.express import Express, Headers
from agentenvs_servers.framing import Cutter, framed
from agentenvs_servers.handlers import JSON_TYPE, Answer
from agentenvs_servers.problems import MEDIA_TYPE, ProblemError, phrase
from agentenvs_servers.requests import Request
from agentenvs_servers.settings import Settings

HEAD_SECONDS = 10.0
"""In which the head of a request must arrive, from the first byte on (of a new connection: from its making)."""

MOST_HEAD_BYTES = 65_536

DIRECT = "agentenvs.direct"
"""Name of the extension under which a socket's scope holds its :class:`SocketConnection`."""

REST_SECONDS = 0.05
"""In which the rest of a plain step comes that comes in two pieces, or the parser has it like any other."""

LEAST_WAIT = 0.01
"""Seconds; what is due so soon is due."""

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
        self._stamp: Headers | None = None
        self._well = b""
        self.express: Express | None = getattr(app, "express", None)

    def well(self, headers: Headers) -> bytes:
        """Return the head of an answer that goes well, up to the number of its bytes.

        Args:
            headers: What every answer has: another list whenever there is another in it.
        """
        if headers is not self._stamp:
            self._stamp = headers
            self._well = _head(200, [*headers, (b"content-type", JSON_TYPE.encode())]) + b"content-length: "
        return self._well


def _head(status: int, headers: Headers) -> bytes:
    return STATUS_LINE[status] + b"".join(b"%b: %b\r\n" % header for header in headers)


def _written(answer: Answer, *more: tuple[bytes, bytes]) -> bytes:
    """Return an answer as it goes over the wire."""
    headers = [
        *more,
        (b"content-type", answer.media_type.encode()),
        (b"content-length", b"%d" % len(answer.body)),
        *((name.lower().encode(), value.encode()) for name, value in answer.headers.items()),
    ]
    return b"%b\r\n%b" % (_head(answer.status, headers), answer.body)


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

    _is_between = True
    """Whether the parser waits for the first byte of a request."""
    _is_express = False
    """Whether a request runs that the parser knows nothing of."""
    _first: bytes | None = None
    """What came from the first byte of a request on, until its head was read."""
    _part = b""
    """What came of a plain request that is not all there; if it still is not with the next piece, the parser has it."""
    _rest: asyncio.TimerHandle | None = None
    """Gives up waiting for the rest."""
    _ahead = b""
    """What came while it ran."""
    _is_leaving = False
    """Whether the server stops, and the connection with the answer that is awaited."""
    _quiet_since = 0.0
    """When the last request was answered."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Addresses hold secrets, and uvicorn logs them wherever its access log has a handler, whoever gave it one.
        self.access_log = False
        self._limited = cast("Config", self.config)
        self._limits = self._limited.limits
        self._express = self._limited.express

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._is_superfluous = len(self.connections) > self._limits.max_connections
        self._arm(SUPERFLUOUS_SECONDS if self._is_superfluous else HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._disarm()
        for timer in (self._reader, self._rest):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; what belongs to no request that runs must soon become one."""
        if self._is_superfluous:
            said = f"the limit is {self._limits.max_connections}"
            self._refuse(ProblemError("too_many_connections", said, headers={"Retry-After": "1"}))
            return
        if self._express is not None:
            data = self._left_by(self._express, data)
            if not data:
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
        self._is_between = False

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
        if self._first is not None and self._express is not None and self.parser.should_keep_alive():
            self._express.learn(self._first, self.headers)
        self._first = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Take note that the next byte begins another request."""
        super().on_message_complete()
        self._is_between = True

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        if not self.transport.is_closing():  # else it has been answered
            self._refuse(ProblemError("bad_http"))

    def pause_writing(self) -> None:
        """Watch whether the client reads, until it has read all."""
        super().pause_writing()
        self._watch()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._quiet_since = self.loop.time()
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that nothing was asked on for long; on the express way nobody touches the timer."""
        self.timeout_keep_alive_task = None
        since = self.loop.time() if self._is_express else self._quiet_since
        left = since + self.timeout_keep_alive - self.loop.time()
        if left > LEAST_WAIT:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
            return
        super().timeout_keep_alive_handler()
        self._watch()

    def shutdown(self) -> None:
        """Go when what runs is answered."""
        if self._rest is not None:
            self._rest.cancel()
            self._pass_on()
        if self._is_express:
            self._is_leaving = True
        else:
            super().shutdown()

    # ---- the express way -------------------------------------------------------------------------------------------

    def _left_by(self, express: Express, data: bytes) -> bytes:
        """Return what the parser must read of what came."""
        if self._is_express:
            self._ahead += data
            if len(self._ahead) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            return b""
        self._first = None
        if not self._is_between or self._is_answering() or self.flow.write_paused:
            return data
        is_first = self._rest is None
        if self._rest is not None:
            self._rest.cancel()
            self._rest, data = None, self._part + data
        self._is_express = True
        taken = express.begin(self, data)
        if taken is not False and self._timer is not None:  # its head is there
            self._disarm()
        if taken:
            return b""
        self._is_express = False
        if taken is None and is_first:
            self._part = data
            self._rest = self.loop.call_later(REST_SECONDS, self._pass_on)
            return b""
        self._first = data
        return data

    def _pass_on(self) -> None:
        """Let the parser have a request whose end does not come at once."""
        self._rest, part = None, self._part
        if not self.transport.is_closing():
            super().data_received(part)

    def answer(self, answer: Answer, request: Request) -> None:
        """Send the answer to the request that runs, and go on to the next."""
        self._is_express = False
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        common = self.server_state.default_headers
        if answer.status == 200 and not self._is_leaving:
            body = answer.body
            self.transport.write(b"%b%d\r\n\r\n%b" % (self._limited.well(common), len(body), body))
        else:
            named = [] if answer.status < 400 else [(b"x-request-id", request.id.encode())]
            ending = [(b"connection", b"close")] if self._is_leaving else []
            self.transport.write(_written(answer, *common, *named, *ending))
        if self._is_leaving:
            self.transport.close()
            self._watch()
            return
        self._quiet_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            self.flow.resume_reading()
            self.data_received(ahead)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something to its end; a server that stops waits for it."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # ---- limits ----------------------------------------------------------------------------------------------------

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
        answer = Answer(problem.status, problem.body, MEDIA_TYPE, problem.headers)
        self.transport.write(_written(answer, (b"connection", b"close")))
        self.transport.close()
        self._watch()


class SocketConnection(WebSocketsSansIOProtocol):
    """One socket; see :class:`uvicorn.protocols.websockets.websockets_sansio_impl.WebSocketsSansIOProtocol`.

    An application that finds this object in its scope (:data:`DIRECT`) may take frames and send answers without the
    queue and the events in between, which cost as much as a step.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cutter = Cutter(self.config.ws_max_size, super().data_received, self._is_open)
        accept = self.conn.accept
        self.conn.accept = lambda request: _told(accept(request))  # type: ignore[method-assign]

    def data_received(self, data: bytes) -> None:
        """Take what came: the handshake first, whole, and frames from then on."""
        if self.handshake_initiated:
            self._cutter.feed(data)
        else:
            super().data_received(data)

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
        self._cutter.taker = taker

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
        if not self.writable.is_set() or not self._is_open():
            return False
        self.transport.write(framed(answer))
        return True

    def _is_open(self) -> bool:
        return not self.close_sent and not self.disconnected and self.conn.state is State.OPEN

    def send_receive_event_to_app(self) -> None:
        """Hand on a frame."""
        taker = self._cutter.taker
        if taker is None or self.curr_msg_data_type != "text" or self.close_sent:
            super().send_receive_event_to_app()
            return
        frames, self.frames = self.frames, []
        taker(bytes(frames[0]) if len(frames) == 1 else b"".join(frames))


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
