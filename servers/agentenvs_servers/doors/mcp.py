"""The Model Context Protocol over streamable HTTP, by the official SDK: an agent key's episode as tools.

The endpoint of an episode is ``/v1/agent/{agent_key}/mcp``, or ``/v1/agent/mcp`` with the key as ``Authorization:
Bearer``. Whoever has it may observe and play that one episode, and nothing else. Nothing is kept between requests, so
any worker can answer any of them; answers are JSON, never streams.

``state`` shows task and observation and uses no turn; the other tools are the world's, and each call is a turn. Calls
have no numbers in this protocol, so what is sent twice is played twice. What is nonsense costs a turn and is answered
as an error of the tool.

The SDK has two major versions in use, which differ in how a server is put together and agree on the wire; both do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import orjson

from agentenvs._version import __version__
from agentenvs.core.errors import missing_extra
from agentenvs_servers import auth, bodies, sockets
from agentenvs_servers.doors import toolbox
from agentenvs_servers.doors.routing import Call, Route
from agentenvs_servers.doors.seats import text_of
from agentenvs_servers.hall import Hall
from agentenvs_servers.handlers import Answer
from agentenvs_servers.problems import CATALOGUE, ProblemError

STATE = "state"
"""The tool that shows task and observation."""

INSTRUCTIONS = (
    f"You play one episode of a text environment. The tool {STATE} shows your task; each other call is a turn."
)

META = "agentenvs/turn"
"""Where the numbers of a turn stand in the ``_meta`` of its answer."""

_SHOW = "Show the task and what you see. Uses no turn."
_ENDED = "The episode has ended."

_key: ContextVar[str] = ContextVar("key")
"""The agent key of the request that is being answered."""


class Mcp:
    """The door.

    Args:
        hall: The sessions.

    Raises:
        MissingExtraError: The SDK is not installed.
    """

    def __init__(self, hall: Hall) -> None:
        try:
            from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        except ImportError as error:
            raise missing_extra("the MCP door", "mcp", "mcp") from error
        self._hall = hall
        self._manager = StreamableHTTPSessionManager(_server(self), json_response=True, stateless=True)

    @property
    def routes(self) -> Sequence[Route]:
        """Its routes."""
        return (
            Route("POST", "/v1/agent/{agent_key}/mcp", self.answer, "The tools of an episode, as MCP.", prefixed=False),
            Route("POST", "/v1/agent/mcp", self.answer, "The same; the key is the token.", prefixed=False),
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep the SDK's requests together; it wants to end them in the task that began them."""
        closing = asyncio.Event()
        opened = asyncio.Event()

        async def run() -> None:
            async with self._manager.run():
                opened.set()
                await closing.wait()

        task = asyncio.create_task(run())
        await opened.wait()
        try:
            yield
        finally:
            closing.set()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def answer(self, call: Call) -> Answer | None:
        """Answer a message; whoever has no key of this server is refused before the SDK is asked."""
        sockets.refuse_foreign(call.headers)
        key = call.names.get("agent_key") or auth.bearer(call.headers)
        async with self._hall.playing(key) as (session, episode):
            session.must_be_agents(episode)
        body = await bodies.read(call.receive, call.headers, self._hall.settings)

        given = iter(({"type": "http.request", "body": body, "more_body": False},))

        async def receive() -> dict[str, Any]:
            for message in given:
                return message
            await asyncio.Event().wait()  # the SDK looks out for a client that goes away; it may send its answer
            return {"type": "http.disconnect"}

        _key.set(key or "")
        await self._manager.handle_request(call.scope, receive, call.send)
        return None

    # ---- what the SDK asks for -------------------------------------------------------------------------------------

    async def tools(self) -> list[dict[str, Any]]:
        """Return the tools of the episode."""
        async with self._hall.playing(_key.get()) as (session, _):
            spec = session.world.spec
        empty = {"type": "object", "properties": {}, "additionalProperties": False}
        own = {"name": STATE, "description": _SHOW, "inputSchema": empty}
        tools = toolbox.tools_of(spec)
        return [own, *({"name": name, "description": said, "inputSchema": schema} for name, said, schema in tools)]

    async def called(self, name: str, arguments: Any) -> dict[str, Any]:
        """Return what a call of a tool comes to; what is refused is an error of the tool."""
        try:
            async with self._hall.playing(_key.get()) as (session, episode):
                if name == STATE:
                    return _shown(orjson.loads(await session.agent_view(episode)))
                action = toolbox.action_of(session.world.spec, name, arguments)
                answer = await session.play_next(action, agent=episode)
            return _played(orjson.loads(answer))
        except ProblemError as problem:
            self._hall.metrics.problems.add(problem.code)
            kind = CATALOGUE[problem.code]
            return _result([f"{kind.title}: {problem.detail}" if problem.detail else kind.title], wrong=True)


def _shown(view: Mapping[str, Any]) -> dict[str, Any]:
    seen, instruction = text_of(view["observation"]), view["task"]["instruction"]
    texts = [seen] if instruction in seen else [f"Task: {instruction}", seen]
    return _result([*texts, *([_ENDED] if view["ended"] else [])], {"turn": view["turn"], "ended": view["ended"]})


def _played(form: Mapping[str, Any]) -> dict[str, Any]:
    ended = form["terminated"] or form["truncated"]
    names = ("episode", "turn", "reward", "terminated", "truncated", "info")
    meta = {**{name: form[name] for name in names}, "budgets": form["observation"]["budgets"]}
    texts = [text_of(form["observation"]), *([_ENDED] if ended else [])]
    return _result(texts, meta, wrong=bool(form["info"].get("invalid")))


def _result(texts: Sequence[str], meta: Mapping[str, Any] | None = None, *, wrong: bool = False) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    return {"content": content, "isError": wrong, **({"_meta": {META: meta}} if meta else {})}


def _server(door: Mcp) -> Any:
    """Return a server of the SDK that asks a door."""
    from mcp import types
    from mcp.server.lowlevel import Server

    async def tools() -> Any:
        return types.ListToolsResult.model_validate({"tools": await door.tools()})

    async def called(params: Any) -> Any:
        return types.CallToolResult.model_validate(await door.called(params.name, params.arguments))

    if not hasattr(Server, "list_tools"):  # 2.x
        made: Any = Server
        return made(
            "agentenvs",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=lambda _, __: tools(),
            on_call_tool=lambda _, params: called(params),
        )
    server: Any = Server("agentenvs", version=__version__, instructions=INSTRUCTIONS)
    wrapped: Any = types.ServerResult

    async def old_tools(_: Any) -> Any:
        return wrapped(await tools())

    async def old_called(request: Any) -> Any:
        return wrapped(await called(request.params))

    server.request_handlers[types.ListToolsRequest] = old_tools
    server.request_handlers[types.CallToolRequest] = old_called
    return server
