"""The sessions of a server: makes them, finds them, lets them expire, and forgets them when their time is up.

A create is done once however often it is asked: its key is remembered with its answer for as long as one of its
sessions is. A session expires when nobody has been answered for its idle time, never while a request of its runs. What
is kept of closed sessions is bounded in time and bytes. Everything here runs on one event loop; nothing is awaited
between looking at a count and changing it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

from agentenvs.core.verdict import Ending
from agentenvs_servers.dumping import spelled
from agentenvs_servers.failures import told
from agentenvs_servers.names import is_agent_key
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.sessions import Life, Session, Tools
from agentenvs_servers.settings import Settings
from agentenvs_servers.wire import CreateBody, TaskBody
from agentenvs_servers.worlds import Caller, World

SWEEP_SECONDS = 1.0
"""How often expiry is looked at."""

CLOSE_SECONDS = 5.0
"""How long a server that stops waits for creates, and then for sessions, to come to their end."""

log = logging.getLogger("agentenvs.server")


class _Create:
    """A create that is under way or done; it comes to its end, whether or not its client still waits."""

    def __init__(self, form: bytes, work: Coroutine[Any, Any, bytes]) -> None:
        self.form = form
        self.task = asyncio.get_running_loop().create_task(work)
        self.living = 0
        """Sessions of it that are still known."""


class Hall:
    """All sessions of one server process.

    Args:
        worlds: What it hosts, by id.
        settings: The limits.
        clock: Seconds that never go back.
    """

    def __init__(
        self, worlds: Mapping[str, World], settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.worlds = worlds
        self.settings = settings
        self.draining = False
        self._clock = clock
        self._tools = Tools(settings, Caller(settings.blocking_threads))
        self._tools.make_room = lambda: self._forget(self._clock())
        self._open: dict[bytes, Session] = {}
        self._past: OrderedDict[bytes, Session] = OrderedDict()
        """Closed and expired sessions, in the order of their ending."""
        self._creates: dict[tuple[str, str], _Create] = {}
        self._made_by: dict[bytes, tuple[str, str]] = {}
        """Key of the create a session came from."""
        self._reserved = 0
        self._swept = -math.inf

    # ---- environments ----------------------------------------------------------------------------------------------

    def world(self, name: str) -> World:
        """Return a hosted environment by id or slug.

        Raises:
            ProblemError: ``env_unknown``.
        """
        for world in self.worlds.values():
            if name in (world.spec.id, world.spec.slug):
                return world
        hosted = ", ".join(world.spec.slug for world in self.worlds.values())
        raise ProblemError("env_unknown", f"this server hosts: {hosted}")

    # ---- create ----------------------------------------------------------------------------------------------------

    async def create(self, body: CreateBody, tenant: str) -> bytes:
        """Make one session, or a group, and return the answer.

        Raises:
            ProblemError: ``draining``, ``env_unknown``, ``key_conflict``, ``at_capacity``, ``invalid_request``,
                ``option_refused``, ``task_unknown``, ``sealed_closed``, ``environment_failed``.
        """
        await self.sweep()
        world = self.world(body.env)
        name = (tenant, body.key)
        form = spelled(body.model_dump())
        known = self._creates.get(name)
        if known is not None:
            if known.form != form:
                raise ProblemError("key_conflict", "it was used for another create")
            return await asyncio.shield(known.task)
        count = self._admit(body)
        made = self._creates[name] = _Create(form, self._make(world, body, count, name))
        made.task.add_done_callback(lambda task: self._made(name, task))
        return await asyncio.shield(made.task)

    def _made(self, name: tuple[str, str], task: asyncio.Task[bytes]) -> None:
        """Forget a create that failed: the same key may be tried again."""
        if task.cancelled() or task.exception() is not None:
            del self._creates[name]

    def _admit(self, body: CreateBody) -> int:
        """Return how many sessions a create asks for, where there is room."""
        if self.draining:
            raise ProblemError("draining", headers={"Retry-After": "1"})
        count = len(body.tasks) if body.tasks is not None else body.count or 1
        if count > self.settings.max_group:
            raise ProblemError("invalid_request", f"{count} sessions at once; the limit is {self.settings.max_group}")
        if body.ttl is not None and body.ttl > self.settings.max_idle_ttl:
            raise ProblemError("invalid_request", f"ttl: the limit is {self.settings.max_idle_ttl} seconds")
        if len(self._open) + self._reserved + count > self.settings.max_sessions:
            raise ProblemError(
                "at_capacity",
                f"{len(self._open)} of {self.settings.max_sessions} are open, and {count} more were asked for",
                headers={"Retry-After": str(self._next_slot())},
            )
        self._reserved += count
        return count

    def _next_slot(self) -> int:
        """Return in how many whole seconds a slot may be free: 1, since any may be closed, or what is known."""
        now = self._clock()
        soonest = min((min(session.left(now)) for session in self._open.values()), default=0.0)
        return min(max(math.ceil(soonest), 1), 30)

    async def _make(self, world: World, body: CreateBody, count: int, name: tuple[str, str]) -> bytes:
        tasks: list[TaskBody | None] = list(body.tasks) if body.tasks is not None else [body.task] * count
        made: list[Session] = []
        answers: list[bytes] = []
        try:
            for task in tasks:
                session, answer = await self._one(world, body, task)
                made.append(session)
                answers.append(answer)
                await asyncio.sleep(0)  # a large group must not keep the others waiting
        except BaseException:
            for session in made:
                await session.close("closed", "abandoned", self._clock())
                self._tools.kept_bytes -= sum(map(len, session.records.values()))
                self._forget_agents(session)
            raise
        finally:
            self._reserved -= count
        for session in made:
            secret = self._tools.names.lookup(session.name)
            session.touched = self._clock()
            self._open[secret] = session
            self._made_by[secret] = name
        self._creates[name].living = count
        single = body.tasks is None and body.count is None
        return answers[0] if single else b'{"sessions":[%b]}' % b",".join(answers)

    async def _one(self, world: World, body: CreateBody, task: TaskBody | None) -> tuple[Session, bytes]:
        ref = world.ref(task)
        env = await self._tools.caller.call(world, world.make, body.options)
        life = Life(self._clock(), body.ttl or self.settings.idle_ttl, self.settings.absolute_ttl)
        session = Session(self._tools.names.session(), world, env, life, traced=body.trace, tools=self._tools)
        try:
            return session, await session.begin(ref, body.player)
        except BaseException:
            await self._tools.caller.call(env, env.close)
            raise

    # ---- find ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Session]:
        """Give a session to a request; an answered one keeps it alive.

        Raises:
            ProblemError: ``session_unknown``, or ``wrong_scope`` for an agent key.
        """
        if is_agent_key(name):
            raise ProblemError("wrong_scope", "an agent key is no session")
        secret = self._tools.names.lookup(name)
        session = self._open.get(secret) or self._past.get(secret)
        if session is None:
            raise ProblemError("session_unknown", "it never was, or it is forgotten since its retention time is over")
        async with self._held(session):
            yield session

    @asynccontextmanager
    async def playing(self, key: str | None) -> AsyncIterator[tuple[Session, str]]:
        """Give session and episode to a request of an agent; see :meth:`using`.

        Raises:
            ProblemError: ``unauthorized``.
        """
        found = None if key is None else self._tools.agents.get(self._tools.names.lookup(key))
        if found is None:
            raise ProblemError(
                "unauthorized",
                "no agent key, or one that was never given out or is forgotten",
                fix="send the agent_key of an episode as Authorization: Bearer KEY",
                headers={"WWW-Authenticate": "Bearer"},
            )
        session, episode = found
        if session.over is None and session.current.name != episode:
            session.must_be_agents(episode)  # before it is held: one that plays no more keeps nothing alive
        async with self._held(session):
            yield found

    @asynccontextmanager
    async def _held(self, session: Session) -> AsyncIterator[None]:
        idle, absolute = session.left(self._clock())
        if session.over is None and min(idle, absolute) <= 0:
            if not session.busy:
                await self.end(session, "expired", "abandoned")
            elif absolute <= 0:  # what runs may end, and nothing may follow it
                raise ProblemError("expired")
        touched, session.busy = session.touched, session.busy + 1
        try:
            yield
            touched = self._clock()
        except ProblemError:
            touched = self._clock()
            raise
        finally:  # whoever went away was not answered
            session.busy -= 1
            session.touched = max(touched, session.touched)

    # ---- end -------------------------------------------------------------------------------------------------------

    async def end(self, session: Session, how: str, ending: Ending) -> bytes:
        """Close a session, free its slot, and keep its records for the retention time."""
        answer = await session.close(how, ending, self._clock())
        secret = self._tools.names.lookup(session.name)
        if self._open.pop(secret, None) is not None:
            self._past[secret] = session
            self._tools.kept_bytes += session.weight - sum(map(len, session.records.values()))
        return answer

    async def sweep(self, *, now: bool = False) -> None:
        """Let expire what is due and forget what is long over; at most once a second unless asked to now."""
        clock = self._clock()
        if not now and clock - self._swept < SWEEP_SECONDS:
            return
        self._swept = clock
        for session in [session for session in self._open.values() if min(session.left(clock)) <= 0]:
            if not session.busy:
                await self._put_out(session, "expired", "abandoned")
        self._forget(clock)

    async def _put_out(self, session: Session, how: str, ending: Ending) -> None:
        try:
            await self.end(session, how, ending)
        except Exception as error:  # noqa: BLE001 - boundary: one that cannot be closed must not keep the others open
            log.error("a session could not be closed: %s", told(error))

    def _forget(self, clock: float) -> None:
        while self._past:
            secret, session = next(iter(self._past.items()))
            since = session.over[1] if session.over is not None else clock
            full = self._tools.is_full
            if not full and clock - since <= self.settings.retention:
                return
            if clock - since <= self.settings.retention:
                log.warning("the records of a closed session are dropped early: retained_bytes is reached")
            self._past.popitem(last=False)
            self._tools.kept_bytes -= session.weight
            self._forget_agents(session)
            self._forget_create(secret)

    def _forget_create(self, secret: bytes) -> None:
        name = self._made_by.pop(secret, None)
        create = None if name is None else self._creates.get(name)
        if name is None or create is None:
            return
        create.living -= 1
        if create.living <= 0:
            del self._creates[name]

    def _forget_agents(self, session: Session) -> None:
        for digest in session.agents:
            self._tools.agents.pop(digest, None)

    async def run(self) -> None:
        """Sweep for ever; the server's background task."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.sweep(now=True)
            except Exception as error:  # noqa: BLE001 - boundary: sessions must expire whatever happens
                log.error("a sweep failed: %s", told(error))

    async def close(self) -> None:
        """End every session, as far as that can be done in time; the server goes away."""
        self.draining = True
        if making := [create.task for create in self._creates.values() if not create.task.done()]:
            await asyncio.wait(making, timeout=CLOSE_SECONDS)
        loop = asyncio.get_running_loop()
        ends = [loop.create_task(self._put_out(session, "closed", "aborted")) for session in self._open.values()]
        if ends:
            _, late = await asyncio.wait(ends, timeout=CLOSE_SECONDS)
            if late:
                log.warning("%d sessions could not be ended in time", len(late))
        self._tools.caller.close()

    def left(self, session: Session) -> tuple[float, float]:
        """Return the seconds until a session expires without, and in spite of, further calls."""
        return session.left(self._clock())

    @property
    def counts(self) -> dict[str, int]:
        """How many sessions are open and remembered."""
        return {
            "open": len(self._open),
            "past": len(self._past),
            "creates": len(self._creates),
            "agents": len(self._tools.agents),
            "kept_bytes": self._tools.kept_bytes,
        }
