"""Connections whose clients may be slow or hostile: the head of a request has a time and a size.

uvicorn bounds neither. Without a bound, half a request line holds a connection for ever, and a header without end holds
memory. Bodies have bounds of their own, see :mod:`~agentenvs_servers.bodies`; what is still sent of a body after its
answer counts here as a head that does not come. What is no HTTP at all is answered as a problem as well.

A socket has bounds of its own: frames have a size, and a client that does not answer pings is cut off, also where it
reads nothing of what was written to it already.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from agentenvs_servers.problems import MEDIA_TYPE, ProblemError

HEAD_SECONDS = 10.0
"""In which the head of a request must arrive, from the first byte on (of a new connection: from its making)."""

MOST_HEAD_BYTES = 65_536


class Connection(HttpToolsProtocol):
    """One connection; see :class:`uvicorn.protocols.http.httptools_impl.HttpToolsProtocol`."""

    _timer: asyncio.TimerHandle | None = None
    _head_bytes: int | None = None
    """Bytes of a head that is not complete; None where none has begun."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Addresses hold secrets, and uvicorn logs them wherever its access log has a handler, whoever gave it one.
        self.access_log = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; what belongs to no request that runs must soon become one."""
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:  # it has become a socket
            return
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._refuse(ProblemError("head_too_large", f"the limit is {MOST_HEAD_BYTES} bytes"))
                return
        if self._timer is None and not self._is_answering():
            self._arm()

    def on_message_begin(self) -> None:
        """Begin to count."""
        super().on_message_begin()
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Leave the rest to the application."""
        self._head_bytes = None
        self._disarm()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse(ProblemError("bad_http"))

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = getattr(self, "cycle", None)
        return cycle is not None and not cycle.response_complete

    def _arm(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self._late)

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

    def _refuse(self, problem: ProblemError) -> None:
        head = [
            STATUS_LINE[problem.status],
            b"content-type: %b\r\n" % MEDIA_TYPE.encode(),
            b"content-length: %d\r\n" % len(problem.body),
            b"connection: close\r\n\r\n",
        ]
        self.transport.write(b"".join([*head, problem.body]))
        self.transport.close()


class SocketConnection(WebSocketsSansIOProtocol):
    """One socket; see :class:`uvicorn.protocols.websockets.websockets_sansio_impl.WebSocketsSansIOProtocol`."""

    async def send(self, message: Any) -> None:
        """Send, and take note that a refusal which was sent whole completes the handshake."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True

    def keepalive_timeout(self) -> None:
        """Cut off a client that is not there; what it has not read by now would keep a mere closing waiting."""
        super().keepalive_timeout()
        self.transport.abort()
