"""OpenEnv's ``/ws``: a socket is a session, and its frames are answered one after another.

A socket has no episode before its first reset, unless it resumes a session; a step is an error until then, and never
begins an episode by itself. A client that says goodbye ends its session. One whose connection breaks does not: the
session waits for its idle time, to be resumed. While the socket is open its session does not expire for want of steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any

from agentenvs_servers import auth, bodies, sockets
from agentenvs_servers.asgi import address_of
from agentenvs_servers.doors import openenv_forms as forms
from agentenvs_servers.doors.keys import headers_of
from agentenvs_servers.doors.openenv_rpc import Rpc
from agentenvs_servers.doors.routing import Call
from agentenvs_servers.doors.seats import Seat
from agentenvs_servers.dumping import dump
from agentenvs_servers.failures import told
from agentenvs_servers.hall import Hall
from agentenvs_servers.problems import CATALOGUE, ProblemError
from agentenvs_servers.requests import Request, current
from agentenvs_servers.worlds import World

KEEPS_IN_A_LIFE = 3
"""How often the session of an open socket is kept alive in its idle time."""

_GOODBYES = frozenset({1000, 1001})
"""Codes of a socket that its client has closed; 1005 may be a line that broke."""

_CODES = {
    "at_capacity": "CAPACITY_REACHED",
    "bad_json": "INVALID_JSON",
    "draining": "CAPACITY_REACHED",
    "environment_failed": "EXECUTION_ERROR",
    "internal": "EXECUTION_ERROR",
    "journal_unavailable": "EXECUTION_ERROR",
    "quota_reached": "CAPACITY_REACHED",
    "too_many_creates": "CAPACITY_REACHED",
}
_INVALID = frozenset({403, 413, 422})
"""Statuses of what is wrong with a message rather than with its session."""

log = logging.getLogger("agentenvs.server")


async def serve(hall: Hall, world: World, call: Call, session: str | None, *, rpc: bool = False) -> None:
    """Serve one socket.

    Args:
        hall: The sessions.
        world: What is played.
        call: The handshake.
        session: The session it resumes.
        rpc: Whether its frames are JSON-RPC alone, as those of ``/mcp``.
    """
    await call.receive()  # websocket.connect
    try:
        sockets.refuse_foreign(call.headers)
        entered = auth.Pass(headers_of(call), hall.keyring)
    except ProblemError as problem:
        await sockets.refuse(problem, call.scope, call.send)
        return
    await call.send({"type": "websocket.accept"})
    hall.metrics.sockets += 1
    try:
        await Socket(hall, world, call, entered, session).run(rpc=rpc)
    finally:
        hall.metrics.sockets -= 1


class Socket:
    """An open socket.

    Args:
        hall: The sessions.
        world: What is played.
        call: Its frames.
        entered: What it was opened with.
        session: The session it resumes.
    """

    def __init__(self, hall: Hall, world: World, call: Call, entered: auth.Pass, session: str | None) -> None:
        self._hall = hall
        self._call = call
        self._entered = entered
        self._seat = Seat(hall, world, entered.tenant(), address_of(call.scope), session)
        self._rpc = Rpc(hall, world, entered.tenant(), address_of(call.scope), self._seat)
        self._episode_id: str | None = None
        self._route = hall.metrics.route("WS /ws step", "socket")
        self._does: Mapping[str, Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]] = {
            "mcp": self._mcp,
            "reset": self._reset,
            "state": self._state,
            "step": self._step,
        }

    async def run(self, *, rpc: bool) -> None:
        """Answer frames until the client is gone."""
        if not self._seat.owned and not await self._resumed():
            return
        keeper = asyncio.create_task(self._keep())
        code = 1006
        try:
            if rpc and self._seat.owned:
                await self._begin({})
            code = await self._answer_all(self._told_of_rpc if rpc else self._told)
        except ProblemError as problem:
            await self._send(self._refusal(problem))
        finally:
            keeper.cancel()
            if self._seat.owned and code in _GOODBYES:
                with contextlib.suppress(ProblemError):
                    await self._seat.leave()
        await self._close()

    async def _answer_all(self, answer: Callable[[bytes], Awaitable[bytes | None]]) -> int:
        """Return the code that the socket was closed with."""
        while True:
            message = await self._call.receive()
            if message["type"] != "websocket.receive":
                return int(message.get("code") or 1005)
            current.set(Request())
            text = message.get("text")
            said = await answer(text.encode() if text is not None else message.get("bytes") or b"")
            if said is None:
                return 1000
            await self._send(said)

    async def _keep(self) -> None:
        """Keep the session alive for as long as its socket is open."""
        while True:
            await asyncio.sleep(max(self._seat.idle / KEEPS_IN_A_LIFE, 0.2))
            if self._seat.session is not None:
                with contextlib.suppress(ProblemError):
                    await self._seat.keep()

    async def _resumed(self) -> bool:
        """Return whether the session that is resumed is there."""
        try:
            await self._seat.keep()
        except ProblemError as problem:
            await self._send(self._refusal(problem))
            await self._close()
            return False
        return True

    # ---- frames ----------------------------------------------------------------------------------------------------

    async def _told(self, data: bytes) -> bytes | None:
        """Return the answer to a frame; None where it says goodbye."""
        try:
            self._entered.tenant()
            frame = self._read(data)
            if frame["type"] == "close":
                return None
            does = self._does.get(frame["type"])
            if does is None:
                return _error(f"unknown type of message; known: {', '.join(self._does)}, close", "UNKNOWN_TYPE")
            return dump(await does(frame.get("data") or {}))
        except ProblemError as problem:
            return self._refusal(problem)
        except Exception as error:  # noqa: BLE001 - boundary: nothing of a failure's words may reach a client
            log.error("a frame failed: %s", told(error))
            return self._refusal(ProblemError("internal"))

    async def _told_of_rpc(self, data: bytes) -> bytes:
        self._entered.tenant()
        return dump(await self._rpc.read(data))

    def _read(self, data: bytes) -> dict[str, Any]:
        if len(data) > (most := self._hall.settings.max_body_bytes):
            raise ProblemError("body_too_large", f"the limit is {most} bytes")
        frame = bodies.loads(data)
        if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
            raise ProblemError("invalid_request", 'a frame is {"type": …, "data": {…}}')
        if not isinstance(frame.get("data", {}), dict | None):
            raise ProblemError("invalid_request", "data: an object is wanted")
        if extra := sorted(set(frame) - {"type", "data"}):
            raise ProblemError("invalid_request", f"{extra[0][:80]!r}: a frame has type and data alone")
        return frame

    async def _reset(self, data: dict[str, Any]) -> dict[str, Any]:
        return {"type": "observation", "data": await self._begin(data)}

    async def _begin(self, data: dict[str, Any]) -> dict[str, Any]:
        ask = forms.asked(self._seat.world, data)
        form = await self._seat.begin(ask.task, ask.options)
        self._episode_id = ask.episode_id
        return forms.begun(form, ask)

    async def _step(self, data: dict[str, Any]) -> dict[str, Any]:
        spec = self._seat.world.spec
        if data.get("type") == forms.LIST:
            return {"type": "observation", "data": forms.listed(spec)}
        began = perf_counter()
        status = 200
        try:
            form = await self._seat.act(forms.action_of(spec, data))
        except ProblemError as problem:
            status = problem.status
            raise
        finally:
            self._route.answered(status, perf_counter() - began)
        return {"type": "observation", "data": forms.played(form, forms.tool_of(data))}

    async def _state(self, _: dict[str, Any]) -> dict[str, Any]:
        if self._seat.session is None:
            return {"type": "state", "data": forms.NO_STATE}
        at = await self._seat.standing()
        return {"type": "state", "data": forms.state_of(at, self._seat.session, self._episode_id)}

    async def _mcp(self, data: dict[str, Any]) -> dict[str, Any]:
        return {"type": "mcp", "data": await self._rpc.answer(data)}

    # ---- out -------------------------------------------------------------------------------------------------------

    async def _send(self, answer: bytes) -> None:
        with contextlib.suppress(Exception):  # the client is gone, and whatever a server makes of that
            await self._call.send({"type": "websocket.send", "text": answer.decode()})

    async def _close(self) -> None:
        with contextlib.suppress(Exception):
            await self._call.send({"type": "websocket.close", "code": 1000})

    def _refusal(self, problem: ProblemError) -> bytes:
        self._hall.metrics.problems.add(problem.code)
        code = _CODES.get(problem.code, "VALIDATION_ERROR" if problem.status in _INVALID else "SESSION_ERROR")
        more: dict[str, Any] = {"problem": problem.code}
        if code == "CAPACITY_REACHED":
            more["active_sessions"] = len(self._hall.open)
            more["max_sessions"] = self._hall.settings.max_sessions
        kind = CATALOGUE[problem.code]
        return _error(
            f"{kind.title}: {problem.detail}" if problem.detail else f"{kind.title}: {kind.fix}", code, **more
        )


def _error(message: str, code: str, **more: Any) -> bytes:
    return dump({"type": "error", "data": {"message": message, "code": code, **more}})
