"""The sessions of a server: makes them, finds them, lets them expire, and forgets them when their time is up.

Where there is a journal, this is its memory of the sessions at work: one that is not here is looked for there.

A create is done once however often it is asked: its key is remembered with its answer for as long as one of its
sessions is. A session expires when nobody has been answered for its idle time, never while a request of its runs. What
is kept of closed sessions is bounded in time and bytes. Everything here runs on one event loop; nothing is awaited
between looking at a count and changing it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

from agentenvs.core.verdict import Ending
from agentenvs_servers.dumping import join, spelled
from agentenvs_servers.failures import told
from agentenvs_servers.journal import operations
from agentenvs_servers.journal.rows import CreateRow, lookup
from agentenvs_servers.keeping import Journal, Keeper
from agentenvs_servers.names import is_agent_key, is_session
from agentenvs_servers.presence import LOST, TOUCH_SLACK, Life
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.sessions import Session
from agentenvs_servers.settings import Settings
from agentenvs_servers.tools import Tools
from agentenvs_servers.wire import CreateBody, TaskBody
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


class _Create:
    """A create that is under way or done; it comes to its end, whether or not its client still waits."""

    def __init__(self, form: bytes, work: Coroutine[Any, Any, bytes]) -> None:
        self.form = form
        self.task = asyncio.get_running_loop().create_task(work)
        self.living = 0
        """Sessions of it that are still known."""


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
        self._clock = clock
        self._tools = Tools(settings, Caller(settings.blocking_threads), clock)
        if journal is not None:
            self._tools.names.route = journal.route
        self._tools.make_room = lambda: self._forget(self._clock())
        self._open: dict[bytes, Session] = {}
        self._past: OrderedDict[bytes, Session] = OrderedDict()
        """Closed and expired sessions, in the order of their ending."""
        self._creates: dict[tuple[str, str], _Create] = {}
        self._made_by: dict[bytes, tuple[str, str]] = {}
        """Key of the create a session came from."""
        self._reserved = 0
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
        kept = self._is_kept(body)
        if kept and (row := await self._known_create(tenant, body.key)) is not None:
            return self._answer_again(row, form)
        if name in self._creates:  # somebody began it while the journal was asked
            return await self.create(body, tenant)
        count = self._admit(body)
        made = self._creates[name] = _Create(form, self._make(world, body, count, name))
        made.task.add_done_callback(lambda task: self._made(name, task))
        return await asyncio.shield(made.task)

    def _is_kept(self, body: CreateBody) -> bool:
        """Return whether a create asks for sessions that are kept in the journal.

        Raises:
            ProblemError: ``durability_refused``, where it asks for what this server does not do.
        """
        asked = body.durability or ("memory" if self.journal is None else "group")
        if asked != "memory" and self.journal is None:
            raise ProblemError("durability_refused", f"this server keeps no journal, so not {asked!r}")
        if asked == "memory" and self.journal is not None and self.journal.shared:
            raise ProblemError("durability_refused", "of several workers none has the others' memory")
        return asked != "memory"

    async def _known_create(self, tenant: str, key: str) -> CreateRow | None:
        return None if self.journal is None else await self.journal.do(operations.find_create, tenant, key)

    def _answer_again(self, row: CreateRow, form: bytes) -> bytes:
        """Return the answer to a create that another process, or this one before it stopped, has done."""
        if row.form != hashlib.sha256(form).digest():
            raise ProblemError("key_conflict", "it was used for another create")
        answers = [
            join(zlib.decompress(opening), session=name, env=env, ttl={"idle": idle, "absolute": absolute})
            for name, env, idle, absolute, opening in row.sessions
        ]
        return answers[0] if row.single else b'{"sessions":[%b]}' % b",".join(answers)

    def _made(self, name: tuple[str, str], task: asyncio.Task[bytes]) -> None:
        """Forget a create that failed: the same key may be tried again."""
        kept = self.journal is not None and self._creates[name].living == 0  # the journal remembers it
        if task.cancelled() or task.exception() is not None or kept:
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
            raise self._at_capacity(len(self._open), count)
        self._reserved += count
        return count

    def _at_capacity(self, open_: int, more: int) -> ProblemError:
        return ProblemError(
            "at_capacity",
            f"{open_} of {self.settings.max_sessions} are open, and {more} more were asked for",
            headers={"Retry-After": str(self._next_slot())},
        )

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
            if (known := await self._written(made, body, name)) is not None:
                await self._unmake(made)
                return self._answer_again(known, spelled(body.model_dump()))
        except BaseException:
            await self._unmake(made)
            raise
        finally:
            self._reserved -= count
        for session in made:
            secret = lookup(session.name)
            session.touched = self._clock()
            self._open[secret] = session
            if session.keeper is None:
                self._made_by[secret] = name
                self._creates[name].living += 1
        single = body.tasks is None and body.count is None
        return answers[0] if single else b'{"sessions":[%b]}' % b",".join(answers)

    async def _written(self, made: list[Session], body: CreateBody, name: tuple[str, str]) -> CreateRow | None:
        """Write a create to the journal, and return what is there where another worker was faster.

        Raises:
            ProblemError: ``at_capacity`` or ``journal_unavailable``.
        """
        if self.journal is None or not self._is_kept(body):
            return None
        tenant, key = name
        single = body.tasks is None and body.count is None
        form = hashlib.sha256(spelled(body.model_dump())).digest()
        rows = [session.rows(tenant, key, place) for place, session in enumerate(made)]
        room = self.settings.max_sessions
        strict = body.durability == "strict"
        try:
            new = await self.journal.do_now(
                operations.insert_create, (tenant, key, form, single), rows, room, None, strict=strict
            )
        except operations.Full as full:
            raise self._at_capacity(full.open, len(made)) from full
        return None if new else await self._known_create(tenant, key)

    async def _unmake(self, made: list[Session]) -> None:
        for session in made:
            session.keeper = None  # it was never written
            await session.close("closed", "abandoned", self._clock())
            self._tools.kept_bytes -= session.record_bytes
            self._forget_agents(session)

    async def _one(self, world: World, body: CreateBody, task: TaskBody | None) -> tuple[Session, bytes]:
        ref = world.ref(task)
        env = await self._tools.caller.call(world, world.make, body.options)
        life = Life(self._clock(), body.ttl or self.settings.idle_ttl, self.settings.absolute_ttl)
        name = self._tools.names.session()
        keeper = None
        if self.journal is not None and self._is_kept(body):
            keeper = Keeper(self.journal, name, strict=body.durability == "strict")
        session = Session(name, world, env, life, traced=body.trace, tools=self._tools, keeper=keeper)
        try:
            return session, await session.begin(ref, body.player)
        except BaseException:
            await self._tools.caller.call(env, env.close)
            raise

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
        known = None if digest is None else self._tools.agents.get(digest)
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
        if is_agent_key(name):
            raise ProblemError("wrong_scope", "an agent key is no session")
        secret = lookup(name)
        session = self._open.get(secret) or self._past.get(secret)
        if session is None or (session.over is None and min(session.left(self._clock())) <= 0):
            return None
        session.busy += 1
        return session

    async def fetch(self, name: str) -> Session:
        """Return a session that is not in memory, or whose time may be up; held until :meth:`leave`.

        Raises:
            ProblemError: ``session_unknown``, ``expired`` or ``journal_unavailable``.
        """
        secret = lookup(name)
        session = self._open.get(secret) or self._past.get(secret) or await self._recalled(name, secret)
        idle, absolute = session.left(self._clock())
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
        session.touched = max(self._clock() if touched is None else touched, session.touched)

    async def _recalled(self, name: str, secret: bytes) -> Session:
        """Return a session from the journal.

        Raises:
            ProblemError: ``session_unknown``, ``version_changed`` or ``journal_unavailable``.
        """
        unknown = ProblemError("session_unknown", "it never was, or it is forgotten since its retention time is over")
        if self.journal is None or not is_session(name):
            raise unknown
        keeper = Keeper(self.journal, name, strict=False)
        loaded = await keeper.load()
        if loaded is None:
            raise unknown
        if (known := self._open.get(secret) or self._past.get(secret)) is not None:
            return known  # another request was faster
        world = self.worlds.get(loaded.session.env)
        if world is None:
            raise ProblemError("version_changed", f"this server does not host {loaded.session.env}")
        keeper.strict = loaded.session.strict
        life = Life(0.0, loaded.session.idle, loaded.session.absolute)
        session = Session(name, world, None, life, traced=loaded.session.traced, tools=self._tools, keeper=keeper)
        session.touched = -math.inf
        session.recall(loaded)
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
        answer = await session.close(how, ending, self._clock())
        self._settle(session)
        return answer

    async def expire(self, session: Session) -> None:
        """Let a session expire; one whose world cannot be made again without a verdict on it."""
        if not await self._is_due(session):
            return
        try:
            await session.close("expired", "abandoned", self._clock())
        except ProblemError as problem:
            if problem.code not in LOST:
                raise
            await session.give_up("expired", self._clock())
        self._settle(session)

    async def _is_due(self, session: Session) -> bool:
        """Return whether a session's time is up, whichever worker it was answered by."""
        if self.journal is None or not self.journal.shared or session.keeper is None:
            return True
        standing = await self.journal.do_now(operations.standing, session.keeper.id)
        if standing is not None:
            _, touched, now = standing
            session.touched = max(session.touched, self._clock() - now + touched + TOUCH_SLACK)
        return min(session.left(self._clock())) <= 0

    def _settle(self, session: Session) -> None:
        """Put a session that is over where it belongs."""
        secret = lookup(session.name)
        if session.over is not None and self._open.pop(secret, None) is not None:
            self._past[secret] = session
            self._tools.kept_bytes += session.weight - session.record_bytes

    async def sweep(self, *, now: bool = False) -> None:
        """Let expire what is due and forget what is long over; at most once a second unless asked to now."""
        clock = self._clock()
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
            touched = [lookup(session.name) for session in self._open.values() if session.touched >= since]
            await journal.do_now(operations.touch, touched)
            await journal.do_now(operations.renew, journal.route)
            slack = TOUCH_SLACK
        for name in await journal.do_now(operations.due, slack, DUE_AT_ONCE):
            if lookup(name) not in self._open:
                self.leave(await self.fetch(name), -math.inf)
        await journal.do_now(operations.forget, float(self.settings.retention))

    def _put_aside(self) -> None:
        """Give up the worlds that have been idle longest, beyond the most that may be in memory."""
        over = len(self._open) - self.settings.max_live
        if over <= 0:
            return
        idle = [session for session in self._open.values() if session.is_spare]
        for session in sorted(idle, key=lambda session: session.touched)[:over]:
            del self._open[lookup(session.name)]
            self._forget_agents(session)
            # Its turns are in the journal; what it was touched by last must be too, or it expires too early.
            self._spawn(self._quietly(self._aside(session)))

    async def _aside(self, session: Session) -> None:
        if self.journal is not None:
            age = self._clock() - session.touched
            await self.journal.do_now(operations.touch_ago, lookup(session.name), age)
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
        ends = [loop.create_task(self._quietly(self._put_out(session))) for session in self._open.values()]
        if ends:
            _, late = await asyncio.wait(ends, timeout=CLOSE_SECONDS)
            if late:
                log.warning("%d sessions could not be ended in time", len(late))
        if self.journal is not None:
            await self.journal.close()
        self._tools.caller.close()

    async def _put_out(self, session: Session) -> None:
        """End a session that dies with the server; one that is kept goes on with the next."""
        if session.keeper is None:
            await session.close("closed", "aborted", self._clock())
            self._settle(session)
        else:
            await session.leave_world()

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
