"""A client that never gives up, and throws answers away: what it asked for is done once all the same.

Every request is asked again until it is answered. Now and then it is asked again although it was answered, or the
connection is cut before the answer comes; the answers to one request must then be the same bytes.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from agentenvs.core.streams import Stream

PATIENCE_SECONDS = 120.0
ATTEMPT_SECONDS = 30.0
_LATER = frozenset({502, 503, 504})


class Answer(NamedTuple):
    """An answer."""

    status: int
    body: bytes

    @property
    def form(self) -> Any:
        """Its JSON."""
        return json.loads(self.body)


class Swapped(Exception):
    """One request was answered twice, and not alike."""


class GaveUp(Exception):
    """The server stayed away for longer than anybody would wait."""


class Refused(Exception):
    """The server refused what it must not refuse."""


class Counts:
    """What happened on the wire."""

    def __init__(self) -> None:
        self.answers = self.broken = self.waits = self.thrown_away = 0
        self.longest_wait = 0.0


class Caller:
    """One client's way to one server, or to any of several workers.

    Args:
        ports: Where they listen; one is chosen for each request.
        stream: Chance.
        counts: What happened.
        fresh: Whether each request has a connection of its own.
        loses: One in so many answers is thrown away.
    """

    def __init__(
        self, ports: Sequence[int], stream: Stream, counts: Counts, *, fresh: bool = False, loses: int = 12
    ) -> None:
        self._ports = ports
        self._stream = stream
        self._counts = counts
        self._fresh = fresh
        self._loses = loses
        self._open: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> Answer:
        """Return the answer to a request that may be asked again.

        Raises:
            GaveUp: There is none.
            Swapped: There are two.
        """
        request = _request(method, path, body, token)
        before: Answer | None = None
        began = time.monotonic()
        tries = 0
        while True:
            tries += 1
            answer = await self._attempt(request, before)
            if answer is not None and answer.status not in _LATER:
                if before is not None and not _alike(answer, before):
                    raise Swapped(f"{method} was answered {before} and then {answer}")
                if before is not None or not self._stream.chance(1, self._loses):
                    self._counts.answers += 1
                    self._counts.longest_wait = max(self._counts.longest_wait, time.monotonic() - began)
                    return answer
                self._counts.thrown_away += 1
                before = answer
                continue
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise GaveUp(f"{method} found nobody; the last answer was {answer}")
            self._counts.waits += answer is not None
            await asyncio.sleep(min(0.02 * 2 ** min(tries, 5), 0.5) * (0.5 + self._stream.uniform()))

    async def close(self) -> None:
        """Hang up."""
        for _, writer in self._open.values():
            writer.close()
        self._open.clear()

    async def _attempt(self, request: bytes, before: Answer | None) -> Answer | None:
        port = self._stream.choice(self._ports)
        cut = before is None and self._stream.chance(1, self._loses * 2)
        try:
            return await asyncio.wait_for(self._exchange(port, request, cut=cut), ATTEMPT_SECONDS)
        except (OSError, EOFError, TimeoutError, ValueError):
            self._counts.broken += 1
            self._hang_up(port)
            return None

    async def _exchange(self, port: int, request: bytes, *, cut: bool) -> Answer:
        if port not in self._open:
            self._open[port] = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
        reader, writer = self._open[port]
        writer.write(request)
        await writer.drain()
        if cut:
            await asyncio.sleep(0.003 * self._stream.uniform())
            raise EOFError("cut")
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        size = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        body = await reader.readexactly(size)
        if self._fresh or b"connection: close" in head.lower():
            self._hang_up(port)
        return Answer(status, body)

    def _hang_up(self, port: int) -> None:
        found = self._open.pop(port, None)
        if found is not None:
            found[1].transport.abort()


def _request(method: str, path: str, body: Any, token: str | None) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-length: {len(data)}"]
    lines += ["content-type: application/json"] if data else []
    lines += [f"authorization: Bearer {token}"] if token else []
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def _alike(one: Answer, two: Answer) -> bool:
    """Return whether two answers to one request are the same; of a batch, what was played both times."""
    if one == two or not one.body.startswith(b'{"items":'):
        return one == two
    pairs = zip(one.form["items"], two.form["items"], strict=True)
    return all(first == second for first, second in pairs if first["status"] == second["status"] == 200)


class Batcher:
    """Puts steps that are asked for at the same time into one batch; each is asked again until it is answered.

    Args:
        caller: Takes the batches.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._waiting: list[tuple[dict[str, Any], asyncio.Future[Any]]] = []
        self._task: asyncio.Task[None] | None = None

    async def step(self, item: dict[str, Any]) -> Answer:
        """Return the answer to one step."""
        while True:
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._waiting.append((item, future))
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._send())
            reply = await future
            if reply["status"] not in _LATER:
                return Answer(reply["status"], json.dumps(reply.get("result", reply.get("problem"))).encode())
            await asyncio.sleep(0.1)

    async def _send(self) -> None:
        while self._waiting:
            await asyncio.sleep(0.005)
            batch, self._waiting = self._waiting, []
            try:
                answer = await self._caller.ask("POST", "/v1/steps", {"items": [item for item, _ in batch]})
                if answer.status != 200:
                    raise Refused(f"a batch was answered {answer}")
                replies = answer.form["items"]
            except Exception as error:  # noqa: BLE001 - boundary: whoever waits is told
                for _, future in batch:
                    future.set_exception(error)
                continue
            for (_, future), reply in zip(batch, replies, strict=True):
                future.set_result(reply)
