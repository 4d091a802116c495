"""The JSON-RPC messages of OpenEnv's ``/mcp``: tools of a session, and the sessions themselves.

It is not the Model Context Protocol, whose transport begins with a handshake; that is a door of its own. A session that
``openenv/session/create`` makes has its episode at once, since some clients call tools without ever resetting.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Any

from agentenvs_servers import bodies
from agentenvs_servers.doors import openenv_forms, toolbox
from agentenvs_servers.doors.seats import Seat, end
from agentenvs_servers.failures import told
from agentenvs_servers.hall import Hall
from agentenvs_servers.keyring import Tenant
from agentenvs_servers.problems import CATALOGUE, ProblemError
from agentenvs_servers.worlds import World

INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
PARSE_ERROR = -32700
SERVER_ERROR = -32000

log = logging.getLogger("agentenvs.server")


class RpcError(Exception):
    """An answer that is an error."""

    def __init__(self, code: int, message: str, **data: Any) -> None:
        super().__init__(message)
        self.form = {"code": code, "message": message, **({"data": data} if data else {})}


class Rpc:
    """Answers the messages of one caller.

    Args:
        hall: The sessions.
        world: What is played.
        tenant: Who asks.
        address: From where.
        seat: The caller's session, where it has one; else each message names its own.
    """

    def __init__(self, hall: Hall, world: World, tenant: Tenant, address: str, seat: Seat | None = None) -> None:
        self._hall = hall
        self._world = world
        self._tenant = tenant
        self._address = address
        self._seat = seat
        self._methods: Mapping[str, Callable[[dict[str, Any]], Any]] = {
            "openenv/session/close": self._close,
            "openenv/session/create": self._create,
            "tools/call": self._call,
            "tools/list": self._list,
        }

    async def answer(self, message: Any) -> dict[str, Any]:
        """Return the answer to a message."""
        number = message.get("id") if isinstance(message, dict) else None
        form: dict[str, Any] = {"jsonrpc": "2.0", "id": number if isinstance(number, int | str) else None}
        try:
            return {**form, "result": await self._result(message)}
        except RpcError as error:
            return {**form, "error": error.form}
        except ProblemError as problem:
            self._hall.metrics.problems.add(problem.code)
            return {**form, "error": refusal(problem).form}
        except Exception as error:  # noqa: BLE001 - boundary: nothing of a failure's words may reach a client
            log.error("a message failed: %s", told(error))
            return {**form, "error": refusal(ProblemError("internal")).form}

    async def read(self, data: bytes) -> dict[str, Any]:
        """Return the answer to a message that is not read yet."""
        try:
            message = bodies.loads(data)
        except ProblemError:
            error = {"code": PARSE_ERROR, "message": "that is no JSON"}
            return {"jsonrpc": "2.0", "id": None, "error": error}
        return await self.answer(message)

    async def _result(self, message: Any) -> Any:
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            raise RpcError(INVALID_REQUEST, 'a request is {"jsonrpc": "2.0", "id": …, "method": …, "params": {…}}')
        params = message.get("params", {})
        if not isinstance(params, dict):
            raise RpcError(INVALID_PARAMS, "params is an object")
        method = self._methods.get(message["method"])
        if method is None:
            raise RpcError(UNKNOWN_METHOD, f"known: {', '.join(self._methods)}")
        return await method(params)

    async def _create(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._seat is not None:
            return {"session_id": self._seat.must_have_begun()}
        ask = openenv_forms.asked(self._world, params)
        seat = Seat(self._hall, self._world, self._tenant, self._address)
        made = await seat.begin(ask.task, ask.options)
        return {"session_id": made["session"]}

    async def _close(self, params: dict[str, Any]) -> dict[str, Any]:
        session = _session(params)
        mine = None if self._seat is None else self._seat.session
        if mine is not None and hmac.compare_digest(mine, session):
            raise RpcError(INVALID_REQUEST, "the session of a socket is closed with it")
        if not await end(self._hall, session):
            raise RpcError(INVALID_PARAMS, "there is no such session, or it is over")
        return {"session_id": session, "closed": True}

    async def _list(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"tools": openenv_forms.listing(self._world.spec)}

    async def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name = params.get("name")
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "name: the name of a tool is wanted")
        seat = self._seat
        if seat is None:
            session = _session(params)
            seat = Seat(self._hall, await self._world_of(session), self._tenant, self._address, session)
        action = toolbox.action_of(seat.world.spec, name, params.get("arguments"))
        return openenv_forms.result_of(await seat.act(action))

    async def _world_of(self, session: str) -> World:
        async with self._hall.using(session) as found:
            return found.world


def _session(params: Mapping[str, Any]) -> str:
    session = params.get("session_id")
    if not isinstance(session, str) or not session:
        raise RpcError(INVALID_PARAMS, "session_id: openenv/session/create tells one")
    return session


def refusal(problem: ProblemError) -> RpcError:
    """Return a problem as an error of this protocol."""
    kind = CATALOGUE[problem.code]
    message = f"{kind.title}: {problem.detail}" if problem.detail else kind.title
    code = INVALID_PARAMS if kind.status in (404, 409, 410, 422) else SERVER_ERROR
    return RpcError(code, message, problem=problem.code)
