"""What a request does: one function a route, from raw bytes to an answer, whoever routes it.

The framework and the plain fast path in front of it call the same functions, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import NamedTuple, cast

from agentenvs.core.verdict import Ending
from agentenvs_servers import auth, batches, bodies, forking, metering
from agentenvs_servers.bodies import Receive
from agentenvs_servers.dumping import dump
from agentenvs_servers.hall import Hall
from agentenvs_servers.problems import MEDIA_TYPE, ProblemError
from agentenvs_servers.readiness import Readiness
from agentenvs_servers.telling import Teller
from agentenvs_servers.ticketing import Tickets
from agentenvs_servers.wire import AgentStepBody, CreateBody, ForkBody, ResetBody, StepBody, TicketEndBody

JSON_TYPE = "application/json"
RECORD_TYPE = "application/jsonl"

Headers = Mapping[bytes, bytes]


class Answer(NamedTuple):
    """An answer, ready to be sent."""

    status: int
    body: bytes
    media_type: str = JSON_TYPE
    headers: Mapping[str, str] = {}


class Handlers:
    """The routes of the native protocol.

    Args:
        hall: The sessions.
    """

    def __init__(self, hall: Hall) -> None:
        self.hall = hall
        self._settings = hall.settings
        self._readiness = Readiness(hall)
        self._teller = Teller(hall)
        self._tickets = Tickets(hall)

    async def answered(self, work: Awaitable[Answer]) -> Answer:
        """Return the answer of a handler; a problem is one too."""
        try:
            return await work
        except ProblemError as problem:
            self.hall.metrics.problems.add(problem.code)
            return Answer(problem.status, problem.body, MEDIA_TYPE, problem.headers)

    async def health(self) -> Answer:
        """Say that the process answers."""
        return Answer(200, b'{"status":"healthy"}')

    async def ready(self) -> Answer:
        """Say whether the server does all that it should.

        Raises:
            ProblemError: ``not_ready``; the detail says why.
        """
        if reasons := await self._readiness.reasons():
            raise ProblemError("not_ready", "; ".join(reasons), headers={"Retry-After": "1"})
        return Answer(200, b'{"status":"ready"}')

    async def metrics(self, headers: Headers) -> Answer:
        """Tell what was counted."""
        auth.metrics(headers, self.hall.keyring)
        return Answer(200, await self._teller.text(), metering.CONTENT_TYPE)

    async def envs(self, headers: Headers) -> Answer:
        """List the environments."""
        auth.control(headers, self.hall.keyring)
        return Answer(200, dump({"envs": [world.line() for world in self.hall.worlds.values()]}))

    async def env(self, headers: Headers, name: str) -> Answer:
        """Describe an environment."""
        auth.control(headers, self.hall.keyring)
        return Answer(200, dump(self.hall.world(name).describe()))

    async def create(self, headers: Headers, receive: Receive, address: str = "") -> Answer:
        """Make sessions; the address is that of the client."""
        tenant = auth.control(headers, self.hall.keyring)
        body = bodies.parse(CreateBody, await bodies.read(receive, headers, self._settings))
        return Answer(201, await self.hall.create(body, tenant, address))

    async def reset(self, headers: Headers, receive: Receive, session: str) -> Answer:
        """Begin another episode."""
        auth.control(headers, self.hall.keyring)
        async with self.hall.using(session) as found:
            body = bodies.parse(ResetBody, await bodies.read(receive, headers, self._settings))
            return Answer(200, await found.reset(body))

    async def fork(self, headers: Headers, receive: Receive, session: str, address: str = "") -> Answer:
        """Copy a session; the address is that of the client."""
        tenant = auth.control(headers, self.hall.keyring)
        async with self.hall.using(session) as found:
            body = bodies.parse(ForkBody, await bodies.read(receive, headers, self._settings))
            return Answer(201, await forking.fork(self.hall, found, body, tenant, address))

    async def step(self, headers: Headers, receive: Receive, session: str) -> Answer:
        """Play a turn."""
        auth.control(headers, self.hall.keyring)
        async with self.hall.using(session) as found:
            body = bodies.parse(StepBody, await bodies.read(receive, headers, self._settings))
            return Answer(200, await found.play(body.episode, body.turn, body.action, trace=body.trace))

    async def steps(self, headers: Headers, receive: Receive) -> Answer:
        """Play turns of many sessions."""
        auth.control(headers, self.hall.keyring)
        form = bodies.loads(await bodies.read(receive, headers, self._settings))
        return Answer(200, await batches.play(self.hall, batches.parse(form, self._settings.max_batch)))

    async def status(self, headers: Headers, session: str) -> Answer:
        """Tell how a session stands."""
        auth.control(headers, self.hall.keyring)
        async with self.hall.using(session) as found:
            return Answer(200, await found.status())

    async def traces(self, headers: Headers, session: str, start: int) -> Answer:
        """Return past traces."""
        auth.control(headers, self.hall.keyring)
        async with self.hall.using(session) as found:
            return Answer(200, await found.traces(start))

    async def record(self, headers: Headers, session: str, episode: str | None) -> Answer:
        """Return a record."""
        auth.control(headers, self.hall.keyring)
        async with self.hall.using(session) as found:
            return Answer(200, await found.record(episode), RECORD_TYPE)

    async def ping(self, headers: Headers, session: str) -> Answer:
        """Keep a session alive."""
        auth.control(headers, self.hall.keyring)
        async with self.hall.using(session) as found:
            found.must_be_open()
        idle, absolute = self.hall.left(found)
        return Answer(200, dump({"idle": idle, "absolute": absolute}))

    async def close(self, headers: Headers, session: str, ending: str) -> Answer:
        """Close a session; a closed one answers the same again."""
        auth.control(headers, self.hall.keyring)
        async with self.hall.using(session) as found:
            if found.over is not None and found.over[0] == "expired":
                found.must_be_open()
            return Answer(200, await self.hall.end(found, "closed", cast("Ending", ending)))

    async def agent(self, headers: Headers) -> Answer:
        """Show an agent its episode."""
        async with self.hall.playing(auth.bearer(headers)) as (found, episode):
            return Answer(200, await found.agent_view(episode))

    async def agent_step(self, headers: Headers, receive: Receive) -> Answer:
        """Play a turn of the key's episode."""
        session, episode = await self.hall.agents_session(auth.bearer(headers))
        async with self.hall.using(session) as found:
            body = bodies.parse(AgentStepBody, await bodies.read(receive, headers, self._settings))
            return Answer(200, await found.play(episode, body.turn, body.action, agent=True))

    async def ticket(self, headers: Headers) -> Answer:
        """Tell how a ticket stands."""
        return Answer(200, await self._tickets.status(auth.bearer(headers)))

    async def ticket_next(self, headers: Headers) -> Answer:
        """Give out the scenario that a ticket plays now."""
        return Answer(200, await self._tickets.next(auth.bearer(headers)))

    async def ticket_end(self, headers: Headers, receive: Receive) -> Answer:
        """Give up an episode of a ticket."""
        body = bodies.parse(TicketEndBody, await bodies.read(receive, headers, self._settings))
        return Answer(200, await self._tickets.end(auth.bearer(headers), body.episode))

    async def ticket_record(self, headers: Headers, episode: str) -> Answer:
        """Return the redacted record of an episode of a ticket."""
        return Answer(200, await self._tickets.record(auth.bearer(headers), episode), RECORD_TYPE)
