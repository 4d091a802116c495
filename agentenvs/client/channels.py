"""One socket to a server for all sessions of a process: requests go out as frames, and come back by number.

A channel lives on one event loop. Blocking clients share those of the background loop: a thread leaves its request in
a list and waits for a lock, so that many threads cost few wake-ups and one write. A socket that breaks fails what is
under way on it; whoever asked asks again, as it was, and the next request opens the next socket.

A server, or what stands before it, may not take sockets; then :class:`Refused` says so, and HTTP must do.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import httpx
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from agentenvs.client.calls import Answer, Call
from agentenvs.client.endpoint import ROUTE_HEADER, Endpoint
from agentenvs.client.reading import loads

PATH = "/v1/ws"

MAX_REPLY_BYTES = 1 << 28

OPEN_SECONDS = 10.0
"""In which a socket must open."""

WATCH_SECONDS = 15.0
"""How long a socket may be silent while an answer is due, before it is asked whether it is there, and then again."""

REFUSED_SECONDS = 300.0
"""How long a server that took no socket is asked over HTTP before it is offered one again."""

BARREN_SOCKETS = 3
"""Sockets in a row that broke before an answer, after which they are taken for refused."""

# As servers of this package begin a reply; any other spelling of it is read whole.
_NUMBER = re.compile(rb'\{"id":(\d{1,15}),')


class Refused(httpx.ConnectError):
    """Nothing there takes sockets.

    Args:
        why: In a few words.
        answer: What was answered instead, where it was HTTP.
    """

    def __init__(self, why: str, answer: Answer | None = None) -> None:
        super().__init__(why)
        self.answer = answer


class Ask:
    """A request under way; ``wake`` is called once its reply or error is there."""

    __slots__ = ("call", "error", "number", "reply", "wake")

    def __init__(self, call: Call, wake: Callable[[], None]) -> None:
        self.call = call
        self.wake = wake
        self.number = 0
        self.reply: bytes | None = None
        self.error: Exception | None = None

    def end(self, reply: bytes | None, error: Exception | None = None) -> None:
        """Take what came of it; what comes later finds nobody."""
        if self.reply is None and self.error is None:
            self.reply, self.error = reply, error
            try:
                self.wake()
            except RuntimeError:  # woken already: the line was hung up at this moment
                return

    @property
    def is_unsent(self) -> bool:
        """Whether there was no socket to send it over in all its time."""
        return self.number == 0 and (self.error is None or isinstance(self.error, httpx.ReadTimeout))

    def result(self) -> Answer:
        """Return the answer; read here, in the thread of whoever asked.

        Raises:
            httpx.TransportError: There is none.
        """
        if self.reply is None:
            raise self.error or httpx.ReadTimeout("no answer in time")
        return _read(self.reply)


class Channel:
    """The way to a server from one event loop.

    Args:
        endpoint: The server.
        loop: Where it lives.
        tls: For ``https``.
        wanted: Routing token of the worker that is best asked; empty for any.
    """

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop, tls: Any, wanted: str) -> None:
        self.loop = loop
        self.route = ""
        """Routing token of the worker that was reached; empty where it does not say."""
        self.users = 0
        self.known = False
        """Whether anything was ever answered."""
        self._endpoint = endpoint
        self._tls = tls
        self._said = {**endpoint.said, **({ROUTE_HEADER: wanted} if wanted else {})}
        self._posted: deque[Ask] = deque()
        self._called = False
        self._held: list[Ask] = []
        self._numbers = itertools.count(1)
        self._socket: _Socket | None = None
        self._opening: asyncio.Task[None] | None = None
        self._refused_until = 0.0
        self._barren = 0

    # ---- from any thread -------------------------------------------------------------------------------------------

    @property
    def is_refused(self) -> bool:
        """Whether sockets are known not to be taken there, for now."""
        return time.monotonic() < self._refused_until

    def post(self, asks: Sequence[Ask]) -> None:
        """Send requests, now or as soon as there is a socket."""
        self._posted += asks
        if not self._called:
            self._called = True
            self.loop.call_soon_threadsafe(self._flush)

    def post_here(self, ask: Ask) -> None:
        """Send a request from the loop itself."""
        self._posted.append(ask)
        if not self._called:
            self._called = True
            self.loop.call_soon(self._flush)

    def forget(self, ask: Ask) -> None:
        """Give a request up; its answer, if it comes, is dropped."""
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._drop, ask)

    def close(self) -> None:
        """Close the socket; the next request opens another."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._close)

    # ---- on the loop -----------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._called = False  # before the list is emptied, so that nobody is left in it
        asks = []
        while self._posted:
            asks.append(self._posted.popleft())
        if self._socket is not None:
            self._socket.send(asks)
            return
        self._held += asks
        if self._opening is None and self._held:
            self._opening = self.loop.create_task(self._open())

    def _drop(self, ask: Ask) -> None:
        if self._socket is not None:
            self._socket.waiting.pop(ask.number, None)
        if ask in self._held:
            self._held.remove(ask)

    async def _open(self) -> None:
        found: _Socket | None = None
        error: Exception | None = None
        try:
            found = await self._connected()
        except httpx.TransportError as failed:
            error = failed
        except Exception as failed:  # noqa: BLE001 - boundary: whoever waits for a socket must be told, whatever it is
            error = httpx.ConnectError(f"{type(failed).__name__}: {failed}")
        held, self._held, self._opening, self._socket = self._held, [], None, found
        if found is not None and not found.is_open:
            self._socket, found, error = None, None, httpx.ReadError("the socket was closed at once")
        if found is not None:
            found.send(held)
            self._close()  # where nobody is left who wants it
            return
        if isinstance(error, Refused):
            self._failed(for_good=error.answer is not None and error.answer.status < 500)
        for ask in held:
            ask.end(None, error)

    def _failed(self, *, for_good: bool = False) -> None:
        """Take note of a socket that was of no use."""
        self._barren += 1
        if for_good or self._barren >= BARREN_SOCKETS:
            self._barren = 0
            self._refused_until = time.monotonic() + REFUSED_SECONDS

    async def _connected(self) -> _Socket:
        """Return an open socket.

        Raises:
            httpx.TransportError: There is none to be had; :class:`Refused` where HTTP may do.
        """
        url, host = self._endpoint.url, self._endpoint.url.host
        port = url.port or (443 if url.scheme == "https" else 80)
        tls = self._tls if url.scheme == "https" else None
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                _, made = await self.loop.create_connection(
                    lambda: _Socket(self), host, port, ssl=tls, server_hostname=host if tls else None
                )
        except (OSError, TimeoutError) as error:
            raise httpx.ConnectError(str(error) or type(error).__name__) from error
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await made.opened
        except TimeoutError as error:
            made.abort()
            raise Refused("the handshake of a socket is not answered") from error
        return made

    def protocol(self) -> ClientProtocol:
        """Return the protocol of a new socket."""
        endpoint = self._endpoint
        scheme = "wss" if endpoint.url.scheme == "https" else "ws"
        return ClientProtocol(parse_uri(f"{scheme}://{endpoint.host}{endpoint.path}{PATH}"), max_size=MAX_REPLY_BYTES)

    def headers(self) -> dict[str, str]:
        """Return what every handshake says."""
        return self._said

    def number(self) -> int:
        """Return the next number of a request."""
        return next(self._numbers)

    def leave(self, socket: _Socket) -> None:
        """Send nothing more over a socket that closes."""
        if self._socket is socket:
            self._socket = None

    def lost(self, socket: _Socket, error: Exception) -> None:
        """Take note that a socket is gone; fail what was under way on it."""
        self.leave(socket)
        waiting, socket.waiting = socket.waiting, {}
        if socket.has_answered:
            self._barren = 0
        elif waiting:
            self._failed()
        for ask in waiting.values():
            ask.end(None, error)

    def _close(self) -> None:
        if self.users == 0 and self._socket is not None and not self._socket.waiting:
            socket, self._socket = self._socket, None
            socket.close()


class _Socket(asyncio.Protocol):
    """One connection."""

    def __init__(self, channel: Channel) -> None:
        self.waiting: dict[int, Ask] = {}
        self.opened: asyncio.Future[None] = channel.loop.create_future()
        self.has_answered = False
        self._channel = channel
        self._protocol = channel.protocol()
        self._transport: Any = None
        self._parts: list[bytes] = []
        self._heard = True
        self._asked = False
        self._watch: asyncio.TimerHandle | None = None

    # ---- what the loop calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        request = self._protocol.connect()
        for name, value in self._channel.headers().items():
            request.headers[name] = value
        self._protocol.send_request(request)
        self._write()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        self._protocol.receive_data(data)
        self._take()

    def eof_received(self) -> bool:
        self._protocol.receive_eof()
        self._take()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        error = httpx.ReadError(f"the socket broke: {exc}" if exc else "the socket was closed")
        if not self.opened.done():
            self.opened.set_exception(Refused("the handshake of a socket is cut off"))
        self._channel.lost(self, error)

    # ---- what the channel calls ------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent."""
        return self._protocol.state is State.OPEN

    def send(self, asks: list[Ask]) -> None:
        """Send requests, all in one write."""
        protocol, waiting = self._protocol, self.waiting
        for ask in asks:
            ask.number = number = self._channel.number()
            waiting[number] = ask
            protocol.send_text(ask.call.frame(number))
        self._write()

    def close(self) -> None:
        """Say goodbye."""
        self._protocol.send_close(1000)
        self._write()
        self._transport.close()

    def abort(self) -> None:
        """Cut the line."""
        self._transport.abort()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data:
            self._transport.write(data)

    def _take(self) -> None:
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._frame(event)
            elif isinstance(event, Response):
                self._begin(event)
        self._write()  # a pong, or the answer to a close
        if self._protocol.state is not State.OPEN:
            self._channel.leave(self)
            if self._protocol.close_expected():
                self._transport.close()

    def _begin(self, response: Response) -> None:
        error = self._protocol.handshake_exc
        if error is None:
            self._channel.route = response.headers.get(ROUTE_HEADER, "")
            self._watch = self._channel.loop.call_later(WATCH_SECONDS, self._look)
            self.opened.set_result(None)
        elif not self.opened.done():
            answer = None
            if isinstance(error, InvalidStatus):
                answer = Answer(response.status_code, None, bytes(response.body or b""))
            self.opened.set_exception(Refused(f"a socket is answered with status {response.status_code}", answer))

    def _frame(self, frame: Frame) -> None:
        if frame.opcode not in (Opcode.TEXT, Opcode.CONT):
            return
        if not frame.fin or frame.opcode is Opcode.CONT:
            self._parts.append(bytes(frame.data))
            if not frame.fin:
                return
            data, self._parts = b"".join(self._parts), []
        else:
            data = bytes(frame.data)
        ask = self.waiting.pop(_number(data), None)
        if ask is not None:
            self.has_answered = self._channel.known = True
            ask.end(data)

    def _look(self) -> None:
        """Ask a silent socket whether it is there, and cut one that does not say so."""
        self._watch = self._channel.loop.call_later(WATCH_SECONDS, self._look)
        if self._heard or not self.waiting:
            self._heard, self._asked = False, False
        elif self._asked:
            self._transport.abort()
        else:
            self._asked = True
            self._protocol.send_ping(b"")
            self._write()


def _number(data: bytes) -> int:
    """Return which request a reply is to; 0, which is none, where it does not say."""
    found = _NUMBER.match(data)
    if found is not None:
        return int(found[1])
    try:
        number = loads(data)["id"]
    except (KeyError, TypeError, ValueError):
        return 0
    return number if type(number) is int else 0


def _read(data: bytes) -> Answer:
    """Return what a reply says.

    Raises:
        httpx.RemoteProtocolError: It makes no sense.
    """
    try:
        form = loads(data)
        status, wait = form["status"], form.get("retry_after")
        if type(status) is int and 200 <= status < 600:
            said = form["body"] if status < 300 else form["problem"]
            return Answer(status, None if wait is None else float(wait), b"", said)
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    raise httpx.RemoteProtocolError("a reply on the socket makes no sense")


# ---- who shares which ------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_channels: dict[tuple[int, str, str, str], Channel] = {}


def acquire(endpoint: Endpoint, loop: asyncio.AbstractEventLoop, tls: Callable[[], Any], wanted: str = "") -> Channel:
    """Return the channel that everybody on this loop with this address and token shares.

    Args:
        endpoint: The server.
        loop: Where the channel lives.
        tls: Makes what ``https`` needs.
        wanted: Routing token of the worker that is best asked; empty for any.
    """
    with _lock:
        for key in [key for key, channel in _channels.items() if channel.loop.is_closed()]:
            del _channels[key]
        key = (id(loop), endpoint.key, endpoint.said.get("Authorization", ""), wanted)
        channel = _channels.get(key)
        if channel is None:
            secure = tls() if endpoint.url.scheme == "https" else None
            channel = _channels[key] = Channel(endpoint, loop, secure, wanted)
        channel.users += 1
        return channel


def release(channel: Channel) -> None:
    """Give a channel back; the last one closes it."""
    with _lock:
        channel.users -= 1
        if channel.users == 0:
            channel.close()


def _forget_all() -> None:
    global _lock
    _lock = threading.Lock()
    _channels.clear()


if hasattr(os, "register_at_fork"):  # a forked process must not write to its parent's sockets
    os.register_at_fork(after_in_child=_forget_all)
