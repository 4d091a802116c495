"""OpenEnv: its socket, its HTTP routes, its list of tasks, and its JSON-RPC, over the sessions of this server.

What its unmodified clients want is answered as its own server does, with two differences. A step never begins an
episode: before a reset it is an error. And HTTP keeps its episode: the session comes with the answer to a reset as
``X-Session-ID`` and as a cookie, and goes back with each step; OpenEnv's own server would play every step in a world
of its own.

``/{env}/…`` is the same for one environment of several, ``/s/{session}/…`` and ``?session_id=`` for a session that
there is already.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from agentenvs_servers import bodies
from agentenvs_servers.asgi import address_of
from agentenvs_servers.doors import openenv_forms as forms
from agentenvs_servers.doors import openenv_socket
from agentenvs_servers.doors.keys import tenant_of
from agentenvs_servers.doors.openenv_rpc import Rpc
from agentenvs_servers.doors.routing import SOCKET, Call, Route, world_of
from agentenvs_servers.doors.seats import OVER, Seat
from agentenvs_servers.doors.tasks import Tasks
from agentenvs_servers.dumping import dump
from agentenvs_servers.hall import Hall
from agentenvs_servers.handlers import Answer
from agentenvs_servers.journal.rows import lookup
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.worlds import World

SESSION_HEADER = "X-Session-ID"
COOKIE = "agentenvs_session"

MOST_NAMES = 10_000
"""Names of episodes that clients chose over HTTP and that are remembered."""


class OpenEnv:
    """The door.

    Args:
        hall: The sessions.
    """

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._tasks = Tasks(hall)
        self._named: OrderedDict[bytes, str] = OrderedDict()
        """What clients call the episodes of sessions, by digest."""

    @property
    def routes(self) -> Sequence[Route]:
        """Its routes."""
        return (
            Route(SOCKET, "/ws", self.socket, "A session."),
            Route(SOCKET, "/mcp", self.rpc_socket, "The tools of a session of its own, as JSON-RPC."),
            Route("POST", "/reset", self.reset, "Begin an episode; the answer names the session."),
            Route("POST", "/step", self.step, "Play a turn of the session that the request names."),
            Route("GET", "/state", self.state, "How the episode of the session stands."),
            Route("GET", "/schema", self.schema, "JSON Schemas of actions, observations and states."),
            Route("GET", "/metadata", self.metadata, "What the environment says of itself."),
            Route("POST", "/mcp", self.rpc, "List and call tools, make and close sessions, as JSON-RPC."),
            Route("GET", "/{env}/health", self.health, "Whether the process answers.", prefixed=False),
            Route("GET", "/{env}/openapi.json", self.document, "Where the routes are listed.", prefixed=False),
            *self._tasks.routes,
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep up nothing: everything is in the hall."""
        yield

    # ---- sockets ---------------------------------------------------------------------------------------------------

    async def socket(self, call: Call) -> None:
        """Serve a session."""
        session, world = await self._resumed(call)
        await openenv_socket.serve(self._hall, world, call, session)

    async def rpc_socket(self, call: Call) -> None:
        """Serve the tools of a session."""
        session, world = await self._resumed(call)
        await openenv_socket.serve(self._hall, world, call, session, rpc=True)

    async def _resumed(self, call: Call) -> tuple[str | None, World]:
        """Return the session that a socket resumes, and what is played in it."""
        query = parse_qs(call.scope.get("query_string", b"").decode("latin-1"))
        session = call.names.get("session") or next(iter(query.get("session_id", [])), None)
        world = world_of(call, self._hall.worlds)
        if session is not None:
            try:
                async with self._hall.using(session) as found:
                    world = found.world
            except ProblemError:
                pass  # told over the socket
        return session, world

    # ---- HTTP ------------------------------------------------------------------------------------------------------

    async def reset(self, call: Call) -> Answer:
        """Begin an episode, in the session that is named or in a new one."""
        seat = await self._seat(call, begins=True)
        ask = forms.asked(seat.world, await self._body(call))
        form = await seat.begin(ask.task, ask.options)
        session = seat.must_have_begun()
        self._name(session, ask.episode_id)
        secure = "; Secure" if call.scope.get("scheme") == "https" else ""
        cookie = f"{COOKIE}={session}; Path=/; HttpOnly; SameSite=Strict{secure}"
        return Answer(200, dump(forms.begun(form, ask)), headers={SESSION_HEADER: session, "Set-Cookie": cookie})

    async def step(self, call: Call) -> Answer:
        """Play a turn."""
        seat = await self._seat(call)
        seat.must_have_begun()
        action = (await self._body(call)).get("action")
        if not isinstance(action, dict):
            raise ProblemError("invalid_request", "action: an object is wanted")
        if action.get("type") == forms.LIST:
            return Answer(200, dump(forms.listed(seat.world.spec)))
        form = await seat.act(forms.action_of(seat.world.spec, action))
        return Answer(200, dump(forms.played(form, forms.tool_of(action))))

    async def state(self, call: Call) -> Answer:
        """Tell how the episode stands."""
        seat = await self._seat(call)
        at, session = await seat.standing(), seat.must_have_begun()
        return Answer(200, dump(forms.state_of(at, session, self._named.get(lookup(session)))))

    async def schema(self, call: Call) -> Answer:
        """Return the schemas."""
        return Answer(200, dump(forms.schemas(world_of(call, self._hall.worlds).spec)))

    async def metadata(self, call: Call) -> Answer:
        """Describe the environment."""
        spec = world_of(call, self._hall.worlds).spec
        return Answer(200, dump({"name": spec.slug, "description": spec.description, "version": spec.release}))

    async def health(self, call: Call) -> Answer:
        """Say that the process answers; clients ask it under the address they were given."""
        world_of(call, self._hall.worlds)
        return Answer(200, b'{"status":"healthy"}')

    async def document(self, call: Call) -> Answer:
        """Lead to the list of all routes."""
        world_of(call, self._hall.worlds)
        return Answer(307, b"", headers={"Location": "/openapi.json"})

    async def rpc(self, call: Call) -> Answer:
        """Answer a JSON-RPC message; errors are answers."""
        tenant = tenant_of(call, self._hall.keyring)
        world = world_of(call, self._hall.worlds)
        data = await bodies.read(call.receive, call.headers, self._hall.settings)
        rpc = Rpc(self._hall, world, tenant, address_of(call.scope))
        return Answer(200, dump(await rpc.read(data)))

    async def _seat(self, call: Call, *, begins: bool = False) -> Seat:
        """Return the session of a request; one that is yet to be made where it names none.

        Args:
            call: The request.
            begins: Whether it begins an episode; then a session of a cookie that is over is none.
        """
        tenant = tenant_of(call, self._hall.keyring)
        world, address = world_of(call, self._hall.worlds), address_of(call.scope)
        session = _named(call)
        crumb = _crumb(call) if session is None else None
        try:
            if (name := session or crumb) is not None:
                async with self._hall.using(name) as found:
                    seat = Seat(self._hall, found.world, tenant, address, name)
                    seat.owned = session is None
                    return seat
        except ProblemError as problem:
            if session is not None or not begins or problem.code not in OVER:
                raise
        return Seat(self._hall, world, tenant, address)

    async def _body(self, call: Call) -> dict[str, Any]:
        form = bodies.loads(await bodies.read(call.receive, call.headers, self._hall.settings))
        if not isinstance(form, dict):
            raise ProblemError("invalid_request", "the body: an object is wanted")
        return form

    def _name(self, session: str, name: str | None) -> None:
        digest = lookup(session)
        self._named.pop(digest, None)
        if name is not None:
            self._named[digest] = name
            if len(self._named) > MOST_NAMES:
                self._named.popitem(last=False)


def _named(call: Call) -> str | None:
    """Return the session that a request names in its address or in a header."""
    return call.names.get("session") or call.headers.get(SESSION_HEADER.lower().encode(), b"").decode("latin-1") or None


def _crumb(call: Call) -> str | None:
    """Return the session of a request's cookie."""
    try:
        crumb = SimpleCookie(call.headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
    except CookieError:
        return None
    return None if crumb is None else crumb.value or None
