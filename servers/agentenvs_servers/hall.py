"""The sessions of a server: makes them, finds them, lets them expire, and forgets them when their time is up.

Where there is a journal, this is its memory of the sessions at work: one that is not here is looked for there.

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
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

from agentenvs.core.verdict import Ending
from agentenvs_servers import telling
from agentenvs_servers.creating import Creates
from agentenvs_servers.failures import told
from agentenvs_servers.journal import operations
from agentenvs_servers.journal.rows import lookup
from agentenvs_servers.keeping import Journal, Keeper
from agentenvs_servers.keyring import Keyring, Tenant
from agentenvs_servers.metering import Metrics
from agentenvs_servers.names import is_agent_key, is_session
from agentenvs_servers.presence import LOST, TOUCH_SLACK, Life, tell_lost
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.sessions import Session
from agentenvs_servers.settings import Settings
from agentenvs_servers.siblings import Siblings
from agentenvs_servers.tools import Tools
from agentenvs_servers.wire import CreateBody
from agentenvs_servers.worlds import Caller, World

SWEEP_SECONDS = 1.0
"""How often expiry is looked at."""

KEEP_UP_SECONDS = 5.0
"""How often touches, leases and expiry are written to, and looked up in, the journal."""

DUE_AT_ONCE = 100
"""Sessions that are let expire at a time, which nobody has in memory."""

CLOSE_SECONDS = 5.0
"""How long a server that stops waits for creates, and then for sessions, to come to their end."""

log = logging.getLogger("agentenvs.server")


class _Held:
    """A session that is held by a request; by hand, since every step goes through here."""

    __slots__ = ("_hall", "_name", "_session", "_touched")

    def __init__(self, hall: Hall, name: str) -> None:
        self._hall = hall
        self._name = name

    async def __aenter__(self) -> Session:
        self._session = self._hall.enter(self._name) or await self._hall.fetch(self._name)
        self._touched = self._session.touched
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Whoever went away was not answered; a problem is an answer.
        answered = kind is None or issubclass(kind, ProblemError)
        self._hall.leave(self._session, None if answered else self._touched)


class Hall:
    """All sessions of one server process.

    Args:
        worlds: What it hosts, by id.
        settings: The limits.
        clock: Seconds that never go back.
        journal: Where sessions are kept; in memory alone where None.
    """

    def __init__(
        self,
        worlds: Mapping[str, World],
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        journal: Journal | None = None,
    ) -> None:
        self.worlds = worlds
        self.settings = settings
        self.journal = journal
        self.draining = False
        self.now = clock
        self.metrics = Metrics()
        self.siblings = Siblings()
        self.keyring = Keyring(settings.tokens, settings.token_file)
        self.connections: Callable[[], int] = lambda: 0
        """How many connections the server has."""
        self.tools = Tools(settings, Caller(settings.blocking_threads), clock, self.metrics)
        self.tools.names.route = settings.route + self.tools.names.route[len(settings.route) :]
        if journal is not None:
            self.tools.names.route = journal.route
        self.tools.make_room = lambda: self._forget(self.now())
        self._open: dict[bytes, Session] = {}
        self._named: dict[str, Session] = {}
        """Open sessions by name, once they were found by digest. A guess is compared with none of them: Python finds
        texts by a hash that is keyed anew in every process."""
        self._past: OrderedDict[bytes, Session] = OrderedDict()
        """Closed and expired sessions, in the order of their ending."""
        self.creates = Creates(self)
        self._swept = self._kept_up = -math.inf
        self._tasks: set[asyncio.Task[None]] = set()

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

    async def create(self, body: CreateBody, tenant: Tenant, address: str = "") -> bytes:
        """Make one session, or a group, and return the answer; see :class:`~agentenvs_servers.creating.Creates`."""
        await self.sweep()
        return await self.creates.create(body, tenant, address)

    def adopt(self, session: Session) -> None:
        """Take a session that was made."""
        session.touched = self.now()
        self._open[lookup(session.name)] = session
        self.metrics.made.add(session.world.spec.id, session.tenant)

    # ---- find ------------------------------------------------------------------------------------------------------

    def using(self, name: str) -> _Held:
        """Give a session to a request, in ``async with``; an answered request keeps it alive.

        Raises:
            ProblemError: On entering: ``session_unknown``, ``expired``, ``journal_unavailable``, or ``wrong_scope`` for
                an agent key.
        """
        return _Held(self, name)

    @asynccontextmanager
    async def playing(self, key: str | None) -> AsyncIterator[tuple[Session, str]]:
        """Give session and episode to a request of an agent; see :meth:`using`.

        Raises:
            ProblemError: ``unauthorized``.
        """
        name, episode = await self.agents_session(key)
        async with self.using(name) as session:
            yield session, episode

    async def agents_session(self, key: str | None) -> tuple[str, str]:
        """Return name of session and episode of an agent key."""
        digest = None if key is None else lookup(key)
        known = None if digest is None else self.tools.agents.get(digest)
        if known is not None:
            session, episode = known
            if session.keeper is None and session.over is None and session.current.name != episode:
                session.must_be_agents(episode)  # before it is held: one that plays no more keeps nothing alive
            return session.name, episode
        found = None
        if digest is not None and self.journal is not None and is_agent_key(key or ""):
            found = await self.journal.do(operations.find_agent, digest)
        if found is None:
            raise ProblemError(
                "unauthorized",
                "no agent key, or one that was never given out or is forgotten",
                fix="send the agent_key of an episode as Authorization: Bearer KEY",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return found

    def enter(self, name: str) -> Session | None:
        """Return a session that is in memory, held until :meth:`leave`; None where it must be fetched.

        Raises:
            ProblemError: ``wrong_scope`` for an agent key; ``expired`` where its time is up in any case.
        """
        session = self._named.get(name) or self._found(name)
        if session is None or (session.over is None and session.is_due(self.now())):
            return None
        session.busy += 1
        return session

    def _found(self, name: str) -> Session | None:
        """Return a session that is in memory, which from then on is found by its name while it is open.

        Raises:
            ProblemError: ``wrong_scope``.
        """
        if is_agent_key(name):
            raise ProblemError("wrong_scope", "an agent key is no session")
        secret = lookup(name)
        session = self._open.get(secret)
        if session is None:
            return self._past.get(secret)
        self._named[session.name] = session
        return session

    async def fetch(self, name: str) -> Session:
        """Return a session that is not in memory, or whose time may be up; held until :meth:`leave`.

        Raises:
            ProblemError: ``session_unknown``, ``expired`` or ``journal_unavailable``.
        """
        secret = lookup(name)
        session = self._open.get(secret) or self._past.get(secret) or await self._recalled(name, secret)
        idle, absolute = session.left(self.now())
        if session.over is None and min(idle, absolute) <= 0:
            if not session.busy:
                await self.expire(session)
            elif absolute <= 0:  # what runs may end, and nothing may follow it
                raise ProblemError("expired")
        session.busy += 1
        return session

    def leave(self, session: Session, touched: float | None = None) -> None:
        """Give a session back; one whose request was answered lives on from now, or from when it was touched."""
        session.busy -= 1
        if touched is None:
            touched = session.answered = self.now()
        if touched > session.touched:
            session.touched = touched

    async def _recalled(self, name: str, secret: bytes) -> Session:
        """Return a session from the journal.

        Raises:
            ProblemError: ``session_unknown``, ``version_changed``, ``journal_damaged`` or ``journal_unavailable``.
        """
        unknown = ProblemError("session_unknown", "it never was, or it is forgotten since its retention time is over")
        if self.journal is None or not is_session(name):
            raise unknown
        keeper = Keeper(self.journal, name, strict=False)
        try:
            loaded = await keeper.load()
        except ProblemError as problem:
            if problem.code in LOST:
                tell_lost(self.tools, secret, problem)
            raise
        if loaded is None:
            raise unknown
        if (known := self._open.get(secret) or self._past.get(secret)) is not None:
            return known  # another request was faster
        world = self.worlds.get(loaded.session.env)
        if world is None:
            raise ProblemError("version_changed", f"this server does not host {loaded.session.env}")
        keeper.strict = loaded.session.strict
        life = Life(0.0, loaded.session.idle, loaded.session.absolute)
        session = Session(name, world, None, life, traced=loaded.session.traced, tools=self.tools, keeper=keeper)
        session.touched = -math.inf
        try:
            session.recall(loaded)
        except ProblemError as problem:
            tell_lost(self.tools, secret, problem)
            raise
        if session.over is None:
            self._open[secret] = session
        else:
            self._past[secret] = session
        return session

    async def step(
        self, name: str, episode: str, turn: int, action: Any, *, trace: bool = False, agent: bool = False
    ) -> bytes:
        """Return the answer to a turn of a session; see :meth:`~agentenvs_servers.sessions.Session.step`."""
        async with self.using(name) as session:
            return await session.play(episode, turn, action, trace=trace, agent=agent)

    # ---- end -------------------------------------------------------------------------------------------------------

    async def end(self, session: Session, how: str, ending: Ending) -> bytes:
        """Close a session, free its slot, and keep its records for the retention time."""
        answer = await session.close(how, ending, self.now())
        self._settle(session)
        return answer

    async def expire(self, session: Session) -> None:
        """Let a session expire; one whose world cannot be made again without a verdict on it."""
        if not await self._is_due(session):
            return
        try:
            await session.close("expired", "abandoned", self.now())
        except ProblemError as problem:
            if problem.code not in LOST:
                raise
            await session.give_up("expired", self.now())
        self._settle(session)

    async def _is_due(self, session: Session) -> bool:
        """Return whether a session's time is up, whichever worker it was answered by."""
        if self.journal is None or not self.journal.shared or session.keeper is None:
            return True
        standing = await self.journal.do_now(operations.standing, session.keeper.id)
        if standing is not None:
            _, touched, now = standing
            session.touched = max(session.touched, self.now() - now + touched + TOUCH_SLACK)
        return min(session.left(self.now())) <= 0

    def _settle(self, session: Session) -> None:
        """Put a session that is over where it belongs."""
        secret = lookup(session.name)
        self._named.pop(session.name, None)
        if session.over is not None and self._open.pop(secret, None) is not None:
            self._past[secret] = session
            self.metrics.over.add(session.world.spec.id, session.over[0])
            self.tools.kept_bytes += session.weight - session.record_bytes

    async def sweep(self, *, now: bool = False) -> None:
        """Let expire what is due and forget what is long over; at most once a second unless asked to now."""
        clock = self.now()
        if not now and clock - self._swept < SWEEP_SECONDS:
            return
        self._swept = clock
        for session in [session for session in self._open.values() if min(session.left(clock)) <= 0]:
            if not session.busy:
                await self._quietly(self.expire(session))
        self._forget(clock)
        if self.journal is not None:
            await self._keep_up(self.journal, clock)

    async def _keep_up(self, journal: Journal, clock: float) -> None:
        """Do for the journal what is due: touches, leases, expiry of sessions that nobody has in memory, retention."""
        self._put_aside()
        if clock - self._kept_up < KEEP_UP_SECONDS:
            return
        since, self._kept_up = self._kept_up, clock
        slack = 0.0
        if journal.shared:
            answered = [session for session in self._open.values() if session.answered >= since]
            await journal.do_now(operations.touch, self._ages(answered))
            await journal.do_now(operations.renew, journal.route)
            slack = TOUCH_SLACK
        for secret, name in await journal.do_now(operations.due, slack, DUE_AT_ONCE):
            if secret not in self._open:
                await self._quietly(self._let_expire(journal, secret, name))
        await journal.do_now(operations.forget, float(self.settings.retention))

    async def _let_expire(self, journal: Journal, secret: bytes, name: str) -> None:
        """Let a session expire that nobody has in memory, whatever the journal can still tell of it."""
        try:
            self.leave(await self.fetch(name), -math.inf)
        except ProblemError as problem:
            if problem.code not in LOST | {"session_unknown"}:
                raise
            await journal.do_now(operations.abandon, secret)

    def _put_aside(self) -> None:
        """Give up the worlds that have been idle longest, beyond the most that may be in memory."""
        over = len(self._open) - self.settings.max_live
        if over <= 0:
            return
        idle = [session for session in self._open.values() if session.is_spare]
        for session in sorted(idle, key=lambda session: session.touched)[:over]:
            del self._open[lookup(session.name)]
            self._named.pop(session.name, None)
            self.forget_agents(session)
            self.metrics.aside.add()
            # Its turns are in the journal; when it was answered last must be too, or it expires too early.
            self._spawn(self._quietly(self._aside(session)))

    def _ages(self, sessions: Iterable[Session]) -> dict[bytes, float]:
        """Return how long ago sessions were answered by this worker; those that never were, are left out."""
        now = self.now()
        return {lookup(session.name): now - session.answered for session in sessions if session.answered > -math.inf}

    async def _aside(self, session: Session) -> None:
        if self.journal is not None:
            await self.journal.do_now(operations.touch, self._ages([session]))
        await session.drop_world()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _quietly(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - boundary: one that cannot be closed must not keep the others open
            log.error("a session could not be closed: %s", told(error))

    def _forget(self, clock: float) -> None:
        while self._past:
            secret, session = next(iter(self._past.items()))
            since = session.over[1] if session.over is not None else clock
            full = self.tools.is_full
            if not full and clock - since <= self.settings.retention:
                return
            if clock - since <= self.settings.retention:
                log.warning("the records of a closed session are dropped early: retained_bytes is reached")
            self._past.popitem(last=False)
            self.tools.kept_bytes -= session.weight
            self.forget_agents(session)
            self.creates.forget(secret)

    def forget_agents(self, session: Session) -> None:
        """Forget the agent keys of a session."""
        for digest in session.agents:
            self.tools.agents.pop(digest, None)

    async def run(self) -> None:
        """Sweep for ever; the server's background task."""
        while True:
            due = time.monotonic() + SWEEP_SECONDS
            await asyncio.sleep(SWEEP_SECONDS)
            self.metrics.loop_lag = max(time.monotonic() - due, 0.0)
            try:
                self.keyring.poll()
                self.siblings.publish(telling.families(self))
                await self.sweep(now=True)
            except Exception as error:  # noqa: BLE001 - boundary: sessions must expire whatever happens
                log.error("a sweep failed: %s", told(error))

    async def close(self) -> None:
        """End every session, as far as that can be done in time; the server goes away."""
        self.draining = True
        if making := self.creates.running():
            await asyncio.wait(making, timeout=CLOSE_SECONDS)
        loop = asyncio.get_running_loop()
        ends = [loop.create_task(self._quietly(self._put_out(session))) for session in self._open.values()]
        if ends:
            _, late = await asyncio.wait(ends, timeout=CLOSE_SECONDS)
            if late:
                log.warning("%d sessions could not be ended in time", len(late))
        if self.journal is not None:
            await self.journal.close()
        self.tools.caller.close()

    async def _put_out(self, session: Session) -> None:
        """End a session that dies with the server; one that is kept goes on with the next."""
        if session.keeper is None:
            await session.close("closed", "aborted", self.now())
            self._settle(session)
        else:
            await session.leave_world()

    @property
    def open(self) -> Collection[Session]:
        """The sessions in memory."""
        return self._open.values()

    def left(self, session: Session) -> tuple[float, float]:
        """Return the seconds until a session expires without, and in spite of, further calls."""
        return session.left(self.now())

    @property
    def counts(self) -> dict[str, int]:
        """How many sessions are open and remembered."""
        return {
            "open": len(self._open),
            "past": len(self._past),
            "creates": len(self.creates),
            "agents": len(self.tools.agents),
            "kept_bytes": self.tools.kept_bytes,
        }
