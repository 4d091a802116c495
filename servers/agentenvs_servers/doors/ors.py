"""The Open Reward Standard: HTTP, tool calls as streams of events, over the sessions of this server.

A client names its session with every request (``X-Session-ID``). The name is the key of the create, so it is found
again by any worker, and after a restart, where there is a journal.

A call is answered as a stream: first its name (``task_id``), then what came of it. The name is episode and turn: a call
that is asked again by it is the same turn, which is played at most once, however often its stream breaks.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
from pydantic import Field

from agentenvs._version import __version__
from agentenvs_servers import bodies
from agentenvs_servers.asgi import address_of
from agentenvs_servers.doors import toolbox
from agentenvs_servers.doors.keys import tenant_of
from agentenvs_servers.doors.routing import Call, Route, latin, world_of
from agentenvs_servers.doors.seats import OVER, Standing, aimed, end, must_live, standing_of, text_of
from agentenvs_servers.doors.tasks import Tasks
from agentenvs_servers.dumping import dump
from agentenvs_servers.hall import Hall
from agentenvs_servers.handlers import Answer
from agentenvs_servers.journal import operations
from agentenvs_servers.keyring import Tenant
from agentenvs_servers.problems import CATALOGUE, ProblemError
from agentenvs_servers.sessions import Session
from agentenvs_servers.wire import CreateBody, Wire

MOST_NAMES = 100_000
"""Names of sessions that are remembered here; where there is a journal, the others are found there."""

_NAME = 200
_STREAM = {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no"}
_LATER = frozenset({"elsewhere", "journal_unavailable", "draining"})
"""Codes of what may be asked again: the stream breaks off, and its client asks again by the name of the call."""


class SessionAsk(Wire):
    """``POST /create``."""

    env_name: str | None = None
    task_spec: dict[str, Any] | None = None
    split: str | None = None
    index: int | None = None
    toolset_name: str | None = None


class CallAsk(Wire):
    """``POST …/call``."""

    name: str
    input: dict[str, Any] = Field(default_factory=dict)
    task_id: str | None = Field(default=None, max_length=_NAME)


class OpenRewardStandard:
    """The door.

    Args:
        hall: The sessions.
    """

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._tasks = Tasks(hall)
        self._sessions: OrderedDict[tuple[str, str], str] = OrderedDict()
        """Sessions by tenant and the name their client has for them."""

    @property
    def routes(self) -> Sequence[Route]:
        """Its routes."""
        return (
            Route("POST", "/create_session", self.create_session, "A new name for a session.", prefixed=False),
            Route("POST", "/create", self.create, "Make the session of a name, with its episode.", prefixed=False),
            Route("POST", "/ping", self.ping, "Keep the session alive.", prefixed=False),
            Route("POST", "/delete", self.delete, "End the session.", prefixed=False),
            Route("POST", "/delete_session", self.delete, "End the session.", prefixed=False),
            Route("GET", "/version", self.version, "The version of the server.", prefixed=False),
            Route("GET", "/tools", self.tools, "The tools of the environment."),
            Route("GET", "/task_tools", self.tools, "The tools of the session's environment."),
            Route("GET", "/prompt", self.prompt, "The task, and what the player sees first."),
            Route("GET", "/messages", self.messages, "The same as messages of a conversation."),
            Route("POST", "/call", self.call, "Call a tool; a stream of events."),
            *self._tasks.routes,
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep up nothing: everything is in the hall."""
        yield

    # ---- sessions --------------------------------------------------------------------------------------------------

    async def create_session(self, call: Call) -> None:
        """Give out a name; nothing is made yet."""
        tenant_of(call, self._hall.keyring)
        await _stream_head(call)
        await _event(call, "task_id", str(uuid.uuid4()))
        await _event(call, "end", "", last=True)

    async def create(self, call: Call) -> Answer:
        """Make a session; asked again it answers the same."""
        tenant, sid = tenant_of(call, self._hall.keyring), _sid(call)
        ask = bodies.parse(SessionAsk, await bodies.read(call.receive, call.headers, self._hall.settings))
        world = world_of(call, self._hall.worlds) if ask.env_name is None else self._hall.world(ask.env_name.lower())
        if ask.toolset_name is not None:
            raise ProblemError("invalid_request", "toolset_name: the environments here bring their own tools")
        spec = {"split": ask.split, "index": ask.index} if ask.task_spec is None else ask.task_spec
        split, index = spec.get("split"), spec.get("index")
        if type(split) is not str or type(index) is not int or set(spec) != {"split", "index"}:
            raise ProblemError("task_unknown", 'a task is {"split": …, "index": …}, as the list of tasks has it')
        body = CreateBody(env=world.spec.id, key=_key(sid), task=aimed(world, split, index)[0])
        made = orjson.loads(await self._hall.create(body, tenant, address_of(call.scope)))
        self._remember(tenant, sid, made["session"])
        return Answer(200, dump({"sid": sid}))

    async def ping(self, call: Call) -> Answer:
        """Keep the session alive; 404 says that it is gone."""
        session = await self._session(call)
        try:
            async with self._hall.using(session) as found:
                await must_live(found)
        except ProblemError as problem:
            if problem.code not in OVER:
                raise
            raise ProblemError("session_unknown", "it is over") from problem
        return Answer(200, b'{"status":"ok"}')

    async def delete(self, call: Call) -> Answer:
        """End the session, where there is one."""
        tenant, sid = tenant_of(call, self._hall.keyring), _sid(call)
        session = await self._find(tenant, sid)
        if session is not None:
            await end(self._hall, session)
            self._sessions.pop((tenant.name, sid), None)
        return Answer(200, dump({"sid": sid}))

    async def version(self, call: Call) -> Answer:
        """Tell the version."""
        tenant_of(call, self._hall.keyring)
        return Answer(200, dump({"version": __version__, "build_sha": None}))

    async def _session(self, call: Call) -> str:
        """Return the session of a request.

        Raises:
            ProblemError: ``session_unknown``; or it may not be asked for.
        """
        found = await self._find(tenant_of(call, self._hall.keyring), _sid(call))
        if found is None:
            raise ProblemError("session_unknown", "no create of this X-Session-ID is known")
        return found

    async def _find(self, tenant: Tenant, sid: str) -> str | None:
        known = self._sessions.get((tenant.name, sid))
        if known is None and self._hall.journal is not None:
            row = await self._hall.journal.do(operations.find_create, tenant.name, _key(sid))
            if row is not None and row.sessions:
                known = str(row.sessions[0][0])
                self._remember(tenant, sid, known)
        return known

    def _remember(self, tenant: Tenant, sid: str, session: str) -> None:
        self._sessions[tenant.name, sid] = session
        if len(self._sessions) > MOST_NAMES:
            self._sessions.popitem(last=False)

    # ---- what is played --------------------------------------------------------------------------------------------

    async def tools(self, call: Call) -> Answer:
        """List the tools."""
        tenant_of(call, self._hall.keyring)
        world = world_of(call, self._hall.worlds)
        if b"x-session-id" in call.headers and (session := await self._find(*self._name(call))) is not None:
            async with self._hall.using(session) as found:
                world = found.world
        tools = [
            {"name": name, "description": said, "input_schema": schema}
            for name, said, schema in toolbox.tools_of(world.spec)
        ]
        blocks = ["text", "image", "reasoning", "tool_call", "tool_result"]
        said = {"terminal_tool": None, "supports_score_group": None, "message_block_types": blocks}
        return Answer(200, dump({"tools": tools, **said}))

    def _name(self, call: Call) -> tuple[Tenant, str]:
        return tenant_of(call, self._hall.keyring), _sid(call)

    async def prompt(self, call: Call) -> Answer:
        """Return the task and the first observation."""
        return Answer(200, dump(await self._prompt(call)))

    async def messages(self, call: Call) -> Answer:
        """Return the prompt as a conversation of one message."""
        return Answer(200, dump([{"role": "user", "blocks": await self._prompt(call), "detail": None}]))

    async def _prompt(self, call: Call) -> list[dict[str, Any]]:
        async with self._hall.using(await self._session(call)) as found:
            at = await found.between_turns(standing_of)
        form = orjson.loads(at.first)
        instruction, seen = form["task"]["instruction"], text_of(form["observation"])
        return [_text(seen)] if instruction in seen else [_text(instruction), _text(seen)]

    async def call(self, call: Call) -> None:
        """Call a tool; what is wrong before its stream has begun is answered without one."""
        session = await self._session(call)
        ask = bodies.parse(CallAsk, await bodies.read(call.receive, call.headers, self._hall.settings))
        async with self._hall.using(session) as found:
            at = await found.between_turns(standing_of)
            name = ask.task_id if ask.task_id is not None else f"{at.episode}.{at.turn + 1}"
            await _stream_head(call)
            event, data = await self._came(found, at, name, ask, call)
            if event:
                await _event(call, event, data, last=True)
            else:
                await call.send({"type": "http.response.body", "body": b""})

    async def _came(self, session: Session, at: Standing, name: str, ask: CallAsk, call: Call) -> tuple[str, str]:
        """Return the last event of a call's stream; none where it is to be asked again."""
        episode, _, turn = name.partition(".")
        if not (turn.isascii() and turn.isdigit() and len(turn) < 16):
            return "error", "unknown task_id"
        await _event(call, "task_id", name)
        if at.ended and int(turn) > at.turn:
            return "end", _failed("the episode has ended", "episode_finished")
        action = toolbox.action_of(session.world.spec, ask.name, ask.input)
        try:
            answer = await session.play(episode, int(turn), action)
        except ProblemError as problem:
            self._hall.metrics.problems.add(problem.code)
            if problem.code in _LATER:
                return "", ""
            if problem.code == "episode_ended":
                return "end", _failed("the episode has ended", "episode_finished")
            kind = CATALOGUE[problem.code]
            return "error", f"{kind.title}: {problem.detail}" if problem.detail else kind.title
        return "end", dump({"ok": True, "output": _output(orjson.loads(answer))}).decode()


def _sid(call: Call) -> str:
    sid = call.headers.get(b"x-session-id", b"").decode("latin-1").strip()
    if not sid or len(sid) > _NAME - len(_key("")):
        raise ProblemError("invalid_request", "X-Session-ID: POST /create_session tells one")
    return sid


def _key(sid: str) -> str:
    return f"ors-{sid}"


def _text(text: str) -> dict[str, Any]:
    return {"text": text, "detail": None, "type": "text"}


def _output(form: Mapping[str, Any]) -> dict[str, Any]:
    names = ("episode", "turn", "terminated", "truncated", "info")
    return {
        "blocks": [_text(text_of(form["observation"]))],
        "metadata": {**{name: form[name] for name in names}, "budgets": form["observation"]["budgets"]},
        "reward": float(form["reward"]),
        "finished": form["terminated"] or form["truncated"],
    }


def _failed(error: str, reason: str) -> str:
    return dump({"ok": False, "error": error, "reason": reason}).decode()


async def _stream_head(call: Call) -> None:
    await call.send({"type": "http.response.start", "status": 200, "headers": latin(_STREAM)})


async def _event(call: Call, event: str, data: str, *, last: bool = False) -> None:
    body = f"event: {event}\ndata: {data}\n\n".encode()
    await call.send({"type": "http.response.body", "body": body, "more_body": not last})
