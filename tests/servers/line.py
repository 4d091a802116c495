"""A socket to an application without a network, and short words for what its tests ask of it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.servers.wire import Play, Wire


class Line:
    """The client's end."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.came: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.reads = asyncio.Event()
        self.reads.set()
        self._numbers = itertools.count(1)
        self._replies: dict[int | None, str] = {}

    async def take(self, message: dict[str, Any]) -> None:
        """The application's ``send``."""
        await self.reads.wait()
        await self.came.put(message)

    def say(self, op: str | None = None, **fields: Any) -> int:
        """Send a request and return its number."""
        number = next(self._numbers)
        self.raw(json.dumps({"id": number, "op": op, **fields}))
        return number

    def raw(self, text: str | None = None, data: bytes | None = None) -> None:
        self.sent.put_nowait({"type": "websocket.receive", "text": text, "bytes": data})

    async def hear(self) -> str:
        """Return the next reply."""
        message = await asyncio.wait_for(self.came.get(), 10)
        assert message["type"] == "websocket.send", message
        return message["text"]

    async def reply(self, number: int | None) -> str:
        """Return the reply to a request, whenever it comes."""
        while number not in self._replies:
            text = await self.hear()
            self._replies[json.loads(text)["id"]] = text
        return self._replies.pop(number)

    async def ask(self, op: str | None, **fields: Any) -> dict[str, Any]:
        """Send a request and return what is replied."""
        return json.loads(await self.reply(self.say(op, **fields)))

    async def body(self, op: str, **fields: Any) -> bytes:
        """Send a request that succeeds and return the bytes of its body."""
        number = self.say(op, **fields)
        text = await self.reply(number)
        head = f'{{"id":{number},"status":{201 if op in ("create", "fork") else 200},"body":'
        assert text.startswith(head), text
        return text[len(head) : -1].encode()

    async def problem(self, code: str, op: str | None, **fields: Any) -> bytes:
        """Send a request that is refused and return the bytes of the problem."""
        number = self.say(op, **fields)
        text = await self.reply(number)
        found = json.loads(text)
        assert (found["status"], found["problem"]["code"]) == (found["problem"]["status"], code), text
        assert set(found) <= {"id", "status", "problem", "retry_after"}
        head = f'{{"id":{number},"status":{found["status"]},"problem":'
        assert text.startswith(head)
        tail = f',"retry_after":{found["retry_after"]}' if "retry_after" in found else ""
        return text[len(head) : len(text) - len(tail) - 1].encode()

    async def step(self, play: Play, turn: Any, action: Any, **more: Any) -> dict[str, Any]:
        return await self.ask("step", **of(play, turn, action, **more))


def of(play: Play, turn: Any, action: Any, **more: Any) -> dict[str, Any]:
    """Return the fields of a step."""
    return {"session": play.form["session"], "episode": play.episode, "turn": turn, "action": action, **more}


@asynccontextmanager
async def connected(wire: Wire, *headers: tuple[bytes, bytes], response: bool = True) -> AsyncIterator[Line]:
    """Open a socket; the first message that comes says how the handshake went."""
    line = Line()
    line.sent.put_nowait({"type": "websocket.connect"})
    scope = {
        "type": "websocket",
        "path": "/v1/ws",
        "headers": [(b"host", b"server"), *headers],
        "extensions": {"websocket.http.response": {}} if response else {},
    }
    task = asyncio.create_task(wire.app(scope, line.sent.get, line.take))
    try:
        yield line
    finally:
        line.reads.set()
        line.sent.put_nowait({"type": "websocket.disconnect", "code": 1005})
        await asyncio.wait_for(task, 20)


@asynccontextmanager
async def opened(wire: Wire, *headers: tuple[bytes, bytes]) -> AsyncIterator[Line]:
    """Open a socket that is accepted."""
    async with connected(wire, *headers) as line:
        accepted = await line.came.get()
        assert accepted["type"] == "websocket.accept"
        assert accepted["headers"] == [(b"x-agentenvs-route", wire.hall.tools.names.route.encode())]
        yield line
