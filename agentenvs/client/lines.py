"""One client's way to one server, blocking and asynchronous, through every kind of weather.

Requests travel over the socket that all sessions with a server share, or over HTTP where sockets are not taken, where
a request is for HTTP only, and where it is so large that others would wait for it. A line asks again after broken
connections, time-outs, 502, 503 and 504, which is safe because every request of the protocol has one effect however
often it is sent, and whichever way; a refusal is never asked again.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Sequence
from typing import Any

import httpx

from agentenvs.client import channels, talking
from agentenvs.client.calls import Answer, Call, Dialogue, T
from agentenvs.client.channels import Ask, Channel, Refused
from agentenvs.client.endpoint import Endpoint
from agentenvs.client.patience import Patience, asks_again
from agentenvs.client.posts import AsyncPost, Post, tls
from agentenvs.client.settings import ClientSettings
from agentenvs.client.talking import Unit
from agentenvs.core.aio import background_loop, on_background_loop
from agentenvs.core.errors import ConfigError, ServiceError

LARGE_BYTES = 1 << 18
"""Requests beyond this travel over HTTP."""

_TOO_LARGE = 413

_FAILED = (httpx.TransportError, httpx.StreamError, TimeoutError)


class _Way:
    """Which way requests take; the same for both kinds of line."""

    def __init__(self, endpoint: Endpoint, settings: ClientSettings, transport: Any) -> None:
        if transport is not None and settings.wire == "socket":
            raise ConfigError("a transport carries no socket", fix="leave wire at auto, or the transport out")
        self.endpoint = endpoint
        self._settings = settings
        # What the shell sets as a proxy takes HTTP; whether it takes sockets is not worth finding out.
        self._may_socket = transport is None and settings.wire != "http" and endpoint.proxy() is None
        if settings.wire == "socket" and not self._may_socket:
            raise ConfigError("a proxy stands between here and the server", fix="set no_proxy, or leave wire at auto")
        self._channels: dict[str, Channel] = {}
        """By routing token of the worker that is best asked; the one for any worker under the empty one."""
        self._known = False

    def _patience(self, call: Call) -> Patience:
        return Patience(self.endpoint.host, self._settings, self._is_known, once=call.once)

    def _is_known(self) -> bool:
        """Return whether the server has answered before: this client, or another one on the socket."""
        return self._known or any(channel.known for channel in self._channels.values())

    def _way_of(self, call: Call, loop: asyncio.AbstractEventLoop) -> Channel | None:
        """Return the socket for a request; None where it takes HTTP."""
        if not self._may_socket or not call.op or (call.body is not None and len(call.body) > LARGE_BYTES):
            return None
        channel = self._channel(loop, "")
        if call.route and channel.route and call.route != channel.route:
            channel = self._channel(loop, call.route)
        return None if channel.is_refused and self._settings.wire == "auto" else channel

    def _taken(self, ask: Ask) -> Answer | None:
        """Return the answer that came over the socket; None where HTTP is to be tried instead."""
        if ask.is_unsent and self._settings.wire == "auto":
            return None
        try:
            return ask.result()
        except Refused as refused:
            return self._instead(refused)

    def _channel(self, loop: asyncio.AbstractEventLoop, wanted: str) -> Channel:
        channel = self._channels.get(wanted)
        if channel is None or channel.loop is not loop:  # another one in a forked process
            channel = self._channels[wanted] = channels.acquire(self.endpoint, loop, tls, wanted)
        return channel

    def _instead(self, refused: Refused) -> Answer | None:
        """Return what answers in the place of a socket that is refused; None where HTTP is to be tried.

        Raises:
            Refused: Nothing does.
        """
        if refused.answer is not None and asks_again(refused.answer):
            return refused.answer
        if self._settings.wire == "auto":
            return None
        if refused.answer is None:
            raise refused
        return refused.answer

    def _release(self) -> None:
        held, self._channels = self._channels, {}
        for channel in held.values():
            channels.release(channel)


class Line(_Way):
    """A blocking line; belongs to one thread at a time, but any thread may hang up.

    Args:
        endpoint: The server.
        settings: Way and patience.
        transport: What carries the requests instead of a connection.

    Raises:
        ConfigError: The settings ask for a socket where none can be.
    """

    def __init__(
        self, endpoint: Endpoint, settings: ClientSettings, transport: httpx.BaseTransport | None = None
    ) -> None:
        super().__init__(endpoint, settings, transport)
        self._transport = transport
        self._post: Post | None = None
        self._hung_up = threading.Event()
        self._under_way: list[Ask] = []
        self._most_items = talking.MOST_ITEMS

    def carry(self, dialogue: Dialogue[T]) -> T:
        """Hold a dialogue and return what came of it.

        Raises:
            ServiceError: The server stays away, or its answers make no sense.
        """
        try:
            call = next(dialogue)
            while True:
                call = dialogue.send(self._ask(call))
        except StopIteration as done:
            value: T = done.value
            return value

    def another(self) -> Line:
        """Return another line to the same server."""
        return Line(self.endpoint, self._settings, self._transport)

    def carry_all(self, dialogues: Sequence[Dialogue[T]]) -> list[T | Exception]:
        """Hold many dialogues side by side, steps of theirs in one request.

        Returns:
            What each returned, or the exception it raised: a ServiceError where the server stays away.
        """
        talk = talking.Talk(dialogues)
        while calls := talk.calls():
            try:
                answers = self._ask_all(calls)
            except ServiceError as error:
                talk.fail(error)
            else:
                talk.answer(answers)
        return talk.results

    def hang_up(self) -> None:
        """Give up the connection, and all waiting for another. May be called twice."""
        self._hung_up.set()
        for ask in list(self._under_way):
            ask.end(None, httpx.ReadError("the line was closed"))
        post = self._post
        if post is not None:
            post.close()
        self._release()

    def pick_up(self) -> None:
        """Take up again a line that was hung up."""
        self._hung_up.clear()

    def _ask(self, call: Call) -> Answer:
        patience = self._patience(call)
        while True:
            try:
                answer = self._attempt(call, patience.seconds)
            except _FAILED as error:
                wait = patience.after(error)
            else:
                self._known = True
                if not asks_again(answer):
                    return answer
                wait = patience.after(answer)
            self._pause(wait)

    def _pause(self, seconds: float) -> None:
        if self._hung_up.wait(seconds):
            raise ServiceError(f"the line to {self.endpoint.host} was closed while it waited for an answer")

    def _attempt(self, call: Call, seconds: float) -> Answer:
        channel = self._way(call)
        if channel is not None:
            (ask,) = self._asked([(channel, call)], seconds)
            if (answer := self._taken(ask)) is not None:
                return answer
        return self._posted(call, seconds)

    def _ask_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Return the answers to requests, asked for together."""
        patience = self._patience(calls[0])  # they are of one kind
        answers: dict[int, Answer] = {}
        left: Sequence[int] = range(len(calls))
        while left:
            failed: Answer | Exception | None = None
            units = talking.units(calls, left, self._most_items)
            for unit, outcome in zip(units, self._attempt_all(units, patience.seconds), strict=True):
                if isinstance(outcome, Exception):
                    failed = outcome
                    continue
                self._known = True
                if unit.is_batch and outcome.status == _TOO_LARGE:
                    self._most_items = len(unit.places) // 2
                    continue
                for place, answer in zip(unit.places, unit.answers(outcome, self.endpoint.host), strict=True):
                    if asks_again(answer):
                        failed = answer
                    else:
                        answers[place] = answer
            left = [place for place in left if place not in answers]
            if failed is not None:
                self._pause(patience.after(failed))
        return [answers[place] for place in range(len(calls))]

    def _attempt_all(self, units: Sequence[Unit], seconds: float) -> list[Answer | Exception]:
        ways = [self._way(unit.call) for unit in units]
        over = [(way, unit.call) for unit, way in zip(units, ways, strict=True) if way is not None]
        asks = iter(self._asked(over, seconds) if over else [])
        outcomes: list[Answer | Exception] = []
        for unit, way in zip(units, ways, strict=True):
            try:
                answer = None if way is None else self._taken(next(asks))
                outcomes.append(self._posted(unit.call, seconds) if answer is None else answer)
            except _FAILED as error:
                outcomes.append(error)
        return outcomes

    def _asked(self, calls: Sequence[tuple[Channel, Call]], seconds: float) -> Sequence[Ask]:
        """Send requests over sockets and return them once each has an answer, or time is up."""
        bell = threading.Lock()
        bell.acquire()
        asks = [Ask(call, bell.release) for _, call in calls]
        if len(asks) > 1:
            rung = itertools.count(1)  # its next number is taken by one thread alone
            for ask in asks:
                ask.wake = lambda: bell.release() if next(rung) == len(asks) else None
        self._under_way = asks
        try:
            for channel in dict.fromkeys(channel for channel, _ in calls):
                channel.post([ask for ask, (its, _) in zip(asks, calls, strict=True) if its is channel])
            answered = bell.acquire(timeout=seconds)
        except BaseException:
            answered = False
            raise
        finally:
            self._under_way = []
            if not answered:
                for ask, (channel, _) in zip(asks, calls, strict=True):
                    channel.forget(ask)
        return asks

    def _way(self, call: Call) -> Channel | None:
        # Who runs on the background loop cannot wait for it.
        return None if on_background_loop() else self._way_of(call, background_loop())

    def _posted(self, call: Call, seconds: float) -> Answer:
        if self._post is None:
            self._post = Post(self.endpoint, self._transport)
        return self._post.attempt(call, seconds)


class AsyncLine(_Way):
    """The same for callers on an event loop; belongs to one loop.

    Args:
        endpoint: The server.
        settings: Way and patience.
        transport: What carries the requests instead of a connection.

    Raises:
        ConfigError: The settings ask for a socket where none can be.
    """

    def __init__(
        self, endpoint: Endpoint, settings: ClientSettings, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        super().__init__(endpoint, settings, transport)
        self._transport = transport
        self._post: AsyncPost | None = None

    async def carry(self, dialogue: Dialogue[T]) -> T:
        """Hold a dialogue and return what came of it; see :meth:`Line.carry`."""
        try:
            call = next(dialogue)
            while True:
                call = dialogue.send(await self._ask(call))
        except StopIteration as done:
            value: T = done.value
            return value

    def another(self) -> AsyncLine:
        """Return another line to the same server."""
        return AsyncLine(self.endpoint, self._settings, self._transport)

    async def hang_up(self) -> None:
        """Give up the connection. May be called twice."""
        post = self._post
        if post is not None:
            await post.close()
        self._release()

    async def _ask(self, call: Call) -> Answer:
        patience = self._patience(call)
        while True:
            try:
                answer = await self._attempt(call, patience.seconds)
            except _FAILED as error:
                wait = patience.after(error)
            else:
                self._known = True
                if not asks_again(answer):
                    return answer
                wait = patience.after(answer)
            await asyncio.sleep(wait)

    async def _attempt(self, call: Call, seconds: float) -> Answer:
        channel = self._way_of(call, asyncio.get_running_loop())
        if channel is not None:
            ask = await self._asked(channel, call, seconds)
            if (answer := self._taken(ask)) is not None:
                return answer
        if self._post is None:
            self._post = AsyncPost(self.endpoint, self._transport)
        return await self._post.attempt(call, seconds)

    async def _asked(self, channel: Channel, call: Call, seconds: float) -> Ask:
        done: asyncio.Future[None] = channel.loop.create_future()
        ask = Ask(call, lambda: None if done.done() else done.set_result(None))
        channel.post_here(ask)
        # Half the price of asyncio.timeout, which would have to cancel the task.
        timer = channel.loop.call_later(seconds, ask.end, None, httpx.ReadTimeout("no answer in time"))
        try:
            await done
        finally:
            timer.cancel()
            if ask.reply is None:
                channel.forget(ask)
        return ask
