"""What the property test of the server knows of it: a few dicts, one world a session, and how to ask a worker."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentenvs.core.environment import Environment
from agentenvs.core.task import TaskRef
from agentenvs_servers.journal.opening import open_journal
from agentenvs_servers.keeping import Journal
from agentenvs_servers.settings import Settings
from tests.servers import rooms
from tests.servers.line import Line, connected
from tests.servers.wire import Clock, Wire

LIMITS = Settings(absolute_ttl=400, retention=100_000, max_sessions=64)

Answer = tuple[int, bytes]


class Hut(rooms.Room):
    """A room that can be copied and kept."""

    spec = replace(rooms.SPEC, id="tests/Hut-v0", slug="hut", entry_point=f"{__name__}:Hut")

    def _own(self) -> None:
        self.world = dict(self.world)

    def _save(self) -> Any:
        return self.world

    def _load(self, scenario: Any, saved: Any) -> None:
        self.world = dict(saved)


@dataclass
class Known:
    """What the model knows of a session."""

    form: dict[str, Any]
    env: Environment
    ref: TaskRef
    born: float
    touched: float
    ttl: int
    sure: bool = True
    """Whether it is known if its time was up when its servers were killed."""
    turn: int = 0
    last: tuple[Any, bytes] | None = None
    """Action and answer of the last turn."""
    failed: bool = False
    actions: list[Any] = field(default_factory=list)
    reset: tuple[dict[str, Any], bytes] | None = None
    over: str | None = None
    farewell: bytes | None = None
    ended: dict[str, int] = field(default_factory=dict)
    """Past episodes, and how many turns were recorded of them."""
    old_keys: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.form["session"])

    @property
    def episode(self) -> str:
        return str(self.form["episode"])

    @property
    def is_over(self) -> bool:
        """Whether its episode has ended."""
        return self.failed or self.env.ending is not None


class Server:
    """One worker, and a socket to it."""

    def __init__(self, path: Path, clock: Clock, number: int, *, shared: bool, fresh: bool, epoch: float) -> None:
        opened = replace(open_journal(str(path), fresh_epoch=fresh), now=lambda _: clock.now - epoch)
        self.wire = Wire(("hut", "clerk"), LIMITS, None, Journal(opened, f"{number:08x}", shared=shared))
        self.wire.clock = clock
        self.wire.hall.now = self.wire.hall.tools.clock = clock
        self._stack = AsyncExitStack()
        self._line: Line | None = None

    async def line(self) -> Line:
        if self._line is None:
            self._line = await self._stack.enter_async_context(connected(self.wire))
            assert (await self._line.came.get())["type"] == "websocket.accept"
        return self._line

    async def kill(self) -> None:
        """Leave it as a killed one would be left; nothing that was answered is waiting to be written."""
        await self._stack.aclose()
        journal = self.wire.hall.journal
        assert journal is not None
        await journal.close()
        await self.wire.http.aclose()

    async def post(self, path: str, body: Any, token: str | None = None) -> Answer:
        answer = await self.wire.post(path, body, token)
        return answer.status_code, answer.content

    async def say(self, op: str, **fields: Any) -> Answer:
        line = await self.line()
        text = await line.reply(line.say(op, **fields))
        form = json.loads(text)
        name = "body" if "body" in form else "problem"
        body = text.split(f'"{name}":', 1)[1][:-1]
        return form["status"], body.split(',"retry_after":')[0].encode()
