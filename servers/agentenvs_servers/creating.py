"""Makes sessions: once however often it is asked, within the limits, in memory and in the journal.

A create that is under way, or whose sessions live in memory alone, is remembered here by its key; one that is in the
journal is remembered there, for every worker. Of a sealed split the server gives out the scenarios, each once.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from agentenvs.core.errors import ConfigError
from agentenvs.core.sealed import sealed_secret_id
from agentenvs.core.spec import SplitSpec
from agentenvs.core.task import TaskRef
from agentenvs_servers.buckets import Buckets, retry_after
from agentenvs_servers.dumping import join, spelled
from agentenvs_servers.journal import operations
from agentenvs_servers.journal.rows import CreateRow, Saved, lookup
from agentenvs_servers.keeping import Keeper, unpacked
from agentenvs_servers.keyring import Tenant
from agentenvs_servers.presence import Life
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.sessions import Session
from agentenvs_servers.wire import CreateBody, TaskBody
from agentenvs_servers.worlds import World

if TYPE_CHECKING:
    from agentenvs_servers.hall import Hall


class Made(NamedTuple):
    """A session that was made, and is not yet anybody's."""

    session: Session
    answer: bytes
    saved: Saved | None = None
    """Its world, where that is not to be had by a reset."""


class Order(NamedTuple):
    """What is to be made, once."""

    tenant: Tenant
    key: str
    form: bytes
    """What was asked with the key, in its one spelling."""
    size: int
    single: bool
    """Whether the answer is that of one session, and not a list."""
    kept: bool
    """Whether in the journal."""
    strict: bool
    make: Callable[[list[Made]], Awaitable[None]]
    """Makes the sessions into a list, which is cleared away where it fails."""

    @property
    def name(self) -> tuple[str, str]:
        """What it is remembered under."""
        return self.tenant.name, self.key


class _Create:
    """A create that is under way or done; it comes to its end, whether or not its client still waits."""

    def __init__(self, form: bytes, work: Coroutine[Any, Any, bytes]) -> None:
        self.form = form
        self.task = asyncio.get_running_loop().create_task(work)
        self.living = 0
        """Sessions of it that are still known."""


class Creates:
    """The creates of a server.

    Args:
        hall: Where sessions go.
    """

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._creates: dict[tuple[str, str], _Create] = {}
        self._made_by: dict[bytes, tuple[str, str]] = {}
        """Key of the create a session in memory came from."""
        self._reserved = 0
        self._reserved_by: Tally[str] = Tally()
        self._buckets = Buckets()

    def __len__(self) -> int:
        """Return how many are remembered here."""
        return len(self._creates)

    def running(self) -> list[asyncio.Task[bytes]]:
        """Return those under way."""
        return [create.task for create in self._creates.values() if not create.task.done()]

    def forget(self, session: bytes) -> None:
        """Forget a session by digest of its name, and its create with the last of its sessions."""
        name = self._made_by.pop(session, None)
        create = None if name is None else self._creates.get(name)
        if name is None or create is None:
            return
        create.living -= 1
        if create.living <= 0:
            del self._creates[name]

    async def create(self, body: CreateBody, tenant: Tenant, address: str = "") -> bytes:
        """Make one session, or a group, and return the answer.

        Args:
            body: What is asked for.
            tenant: Who asks.
            address: From where; counts where there are no tokens.

        Raises:
            ProblemError: ``draining``, ``env_unknown``, ``key_conflict``, ``quota_reached``, ``too_many_creates``,
                ``at_capacity``, ``invalid_request``, ``option_refused``, ``task_unknown``, ``sealed_closed``,
                ``environment_failed``.
        """
        world, settings = self._hall.world(body.env), self._hall.settings
        if body.ttl is not None and body.ttl > settings.max_idle_ttl:
            raise ProblemError("invalid_request", f"ttl: the limit is {settings.max_idle_ttl} seconds")

        async def make(made: list[Made]) -> None:
            tasks: list[TaskBody | None] = list(body.tasks) if body.tasks is not None else [body.task] * _count(body)
            for task in tasks:
                made.append(await self._one(world, body, task, (tenant.name, body.key)))
                await asyncio.sleep(0)  # a large group must not keep the others waiting

        return await self.once(
            Order(
                tenant,
                body.key,
                _form(body),
                _count(body),
                single=body.tasks is None and body.count is None,
                kept=self._is_kept(body),
                strict=body.durability == "strict",
                make=make,
            ),
            address,
        )

    async def draw(self, tenant: Tenant, key: str, world: World, ref: TaskRef, absolute: int) -> bytes:
        """Make the session of a sealed scenario that a ticket opens, and return the answer; see :meth:`create`.

        Args:
            tenant: The ticket's.
            key: Which scenario of it.
            world: Of which environment.
            ref: The scenario.
            absolute: Seconds after which the session expires in any case.

        Raises:
            ProblemError: As :meth:`create`.
        """
        body = CreateBody(env=world.spec.id, key=key, durability="strict")

        async def make(made: list[Made]) -> None:
            made.append(await self._begun(world, body, ref, tenant.name, sealed=True, absolute=absolute))

        form = spelled({"env": world.spec.id, "ref": ref.to_json()})
        return await self.once(Order(tenant, key, form, 1, single=True, kept=True, strict=True, make=make), "")

    async def once(self, order: Order, address: str) -> bytes:
        """Do an order, or return the answer it had.

        Raises:
            ProblemError: ``draining``, ``key_conflict``, ``quota_reached``, ``too_many_creates``, ``at_capacity``,
                ``invalid_request``, ``journal_unavailable``; or what making raises.
        """
        if (known := self._known(order.name, order.form)) is not None:
            return await asyncio.shield(known.task)
        if order.size > (most := self._hall.settings.max_group):
            raise ProblemError("invalid_request", f"{order.size} sessions at once; the limit is {most}")
        self._slow_down(order.size, order.tenant, address)
        if order.kept and (row := await self._known_create(*order.name)) is not None:
            return self._answer_again(row, order.form)
        if (known := self._known(order.name, order.form)) is not None:  # somebody began it while the journal was asked
            return await asyncio.shield(known.task)
        self._admit(order.size, order.tenant)
        made = self._creates[order.name] = _Create(order.form, self._make(order))
        made.task.add_done_callback(lambda task: self._made(order.name, task))
        return await asyncio.shield(made.task)

    def _known(self, name: tuple[str, str], form: bytes) -> _Create | None:
        """Return a create that is remembered here.

        Raises:
            ProblemError: ``key_conflict``, where it asked for something else.
        """
        known = self._creates.get(name)
        if known is not None and known.form != form:
            raise ProblemError("key_conflict", "it was used for another create")
        return known

    def _slow_down(self, count: int, tenant: Tenant, address: str) -> None:
        """Let a tenant, or an address where nobody has a name, make so many sessions in so much time.

        Raises:
            ProblemError: ``too_many_creates``.
        """
        settings = self._hall.settings
        rate = tenant.creates_per_second or settings.creates_per_second
        burst = settings.creates_burst if tenant.creates_per_second is None else max(tenant.creates_per_second, 1.0)
        name = f"tenant {tenant.name}" if tenant.name else f"address {address}"
        wait = self._buckets.take(name, count, rate=rate, burst=burst, now=self._hall.now())
        if wait > 0:
            raise ProblemError("too_many_creates", f"{rate:g} a second in the long run", headers=retry_after(wait))

    def _is_kept(self, body: CreateBody) -> bool:
        """Return whether a create asks for sessions that are kept in the journal.

        Raises:
            ProblemError: ``durability_refused``, where it asks for what this server does not do.
        """
        asked = body.durability or ("memory" if self._hall.journal is None else "group")
        if asked != "memory" and self._hall.journal is None:
            raise ProblemError("durability_refused", f"this server keeps no journal, so not {asked!r}")
        if asked == "memory" and self._hall.journal is not None and self._hall.journal.shared:
            raise ProblemError("durability_refused", "of several workers none has the others' memory")
        if asked != "memory" and body.records == "drop":
            raise ProblemError(
                "durability_refused",
                "records are dropped of sessions in memory alone",
                fix="ask for durability: memory",
            )
        return asked != "memory"

    async def _known_create(self, tenant: str, key: str) -> CreateRow | None:
        return None if self._hall.journal is None else await self._hall.journal.do(operations.find_create, tenant, key)

    def _answer_again(self, row: CreateRow, form: bytes) -> bytes:
        """Return the answer to a create that another process, or this one before it stopped, has done."""
        if row.form != hashlib.sha256(form).digest():
            raise ProblemError("key_conflict", "it was used for another create")
        answers = []
        for name, env, idle, absolute, opening in row.sessions:
            first = unpacked(opening, "the answer to this create")
            answers.append(join(first, session=name, env=env, ttl={"idle": idle, "absolute": absolute}))
        return answers[0] if row.single else b'{"sessions":[%b]}' % b",".join(answers)

    def _made(self, name: tuple[str, str], task: asyncio.Task[bytes]) -> None:
        """Forget a create that failed: the same key may be tried again."""
        kept = self._hall.journal is not None and self._creates[name].living == 0  # the journal remembers it
        if task.cancelled() or task.exception() is not None or kept:
            del self._creates[name]

    def _admit(self, count: int, tenant: Tenant) -> None:
        """Take room for so many sessions."""
        if self._hall.draining:
            raise ProblemError("draining", headers={"Retry-After": "1"})
        if len(self._hall.open) + self._reserved + count > self._hall.settings.max_sessions:
            raise self._at_capacity(len(self._hall.open), count)
        quota = self._quota(tenant)
        if quota is not None and (mine := self._open_of(tenant.name)) + self._reserved_by[tenant.name] + count > quota:
            raise self._quota_reached(mine, count, quota)
        self._reserved += count
        self._reserved_by[tenant.name] += count

    def _quota(self, tenant: Tenant) -> int | None:
        return tenant.max_sessions or self._hall.settings.max_tenant_sessions

    def _open_of(self, tenant: str, *, memory: bool = False) -> int:
        """Return how many sessions of a tenant are open in this process; in its memory alone, where asked for those."""
        mine = (session for session in self._hall.open if session.tenant == tenant)
        return sum(session.keeper is None or not memory for session in mine)

    def _quota_reached(self, open_: int, more: int, quota: int) -> ProblemError:
        return ProblemError(
            "quota_reached",
            f"{open_} of {quota} are open, and {more} more were asked for",
            headers={"Retry-After": str(self._next_slot())},
        )

    def _at_capacity(self, open_: int, more: int) -> ProblemError:
        return ProblemError(
            "at_capacity",
            f"{open_} of {self._hall.settings.max_sessions} are open, and {more} more were asked for",
            headers={"Retry-After": str(self._next_slot())},
        )

    def _next_slot(self) -> int:
        """Return in how many whole seconds a slot may be free: 1, since any may be closed, or what is known."""
        now = self._hall.now()
        soonest = min((min(session.left(now)) for session in self._hall.open), default=0.0)
        return min(max(math.ceil(soonest), 1), 30)

    async def _make(self, order: Order) -> bytes:
        made: list[Made] = []
        try:
            await order.make(made)
            if (known := await self._written(made, order)) is not None:
                await self._unmake(made)
                return self._answer_again(known, order.form)
        except BaseException:
            await self._unmake(made)
            raise
        finally:
            tenant = order.tenant.name
            self._reserved -= order.size
            self._reserved_by[tenant] -= order.size
            if not self._reserved_by[tenant]:
                del self._reserved_by[tenant]
        for session, _, _ in made:
            self._hall.adopt(session)
            if session.keeper is None:
                self._made_by[lookup(session.name)] = order.name
                self._creates[order.name].living += 1
        answers = [each.answer for each in made]
        return answers[0] if order.single else b'{"sessions":[%b]}' % b",".join(answers)

    async def _written(self, made: list[Made], order: Order) -> CreateRow | None:
        """Write a create to the journal, and return what is there where another worker was faster.

        Raises:
            ProblemError: ``at_capacity``, ``quota_reached`` or ``journal_unavailable``.
        """
        journal, quota, tenant = self._hall.journal, self._quota(order.tenant), order.tenant.name
        if journal is None:
            return None
        if quota is not None:
            quota -= self._open_of(tenant, memory=True)
        if not order.kept:
            if quota is not None and (kept := await journal.do(operations.open_sessions, tenant)) > quota - len(made):
                raise self._quota_reached(kept, len(made), quota)
            return None
        rows = [each.session.rows(order.key, place) for place, each in enumerate(made)]
        saved = [each.saved for each in made]
        create = (tenant, order.key, hashlib.sha256(order.form).digest(), order.single)
        room = self._hall.settings.max_sessions
        try:
            new = await journal.do_now(operations.insert_worlds, create, rows, saved, room, quota, strict=order.strict)
        except operations.Full as full:
            if full.tenant and quota is not None:
                raise self._quota_reached(full.open, len(made), quota) from full
            raise self._at_capacity(full.open, len(made)) from full
        return None if new else await self._known_create(tenant, order.key)

    async def _unmake(self, made: list[Made]) -> None:
        for session, _, _ in made:
            session.keeper = None  # it was never written
            await session.close("closed", "abandoned", self._hall.now())
            self._hall.tools.kept_bytes -= session.record_bytes
            self._hall.forget_agents(session)

    async def _sealed(self, world: World, body: CreateBody, split: SplitSpec, name: tuple[str, str]) -> TaskRef:
        """Return the sealed scenario that a create is given.

        Raises:
            ProblemError: ``sealed_closed`` where this server cannot keep its rules, ``sealed_rule`` where the create
                breaks them, ``split_exhausted``.
        """
        if self._hall.journal is None or not self._is_kept(body):
            raise ProblemError("sealed_closed", "its rules need a journal")
        asked = {
            "an index": body.task is not None and (body.task.index, body.task.seed) != (None, None),
            "a count": body.count is not None,
            "options": bool(body.options),
            "traces": body.trace,
        }
        if wrong := [what for what, given in asked.items() if given]:
            raise ProblemError("sealed_rule", f"the server decides; a create may not ask for {wrong[0]}")
        try:
            secret = sealed_secret_id()
        except ConfigError as error:
            raise ProblemError("sealed_closed", "this server was not given its secret") from error
        tenant, key = name
        where = (split.name, split.size or 0)
        number = await self._hall.journal.do(operations.attempt, tenant, world.spec.id, where, secret, key, strict=True)
        if number is None:
            raise ProblemError("split_exhausted", "every scenario of it was given out, each once")
        return TaskRef(split.name, number)

    async def _one(self, world: World, body: CreateBody, task: TaskBody | None, name: tuple[str, str]) -> Made:
        split = world.sealed(task) if body.tasks is None else None
        ref = world.ref(task) if split is None else await self._sealed(world, body, split, name)
        return await self._begun(world, body, ref, name[0], sealed=split is not None)

    async def _begun(
        self, world: World, body: CreateBody, ref: TaskRef, tenant: str, *, sealed: bool, absolute: int | None = None
    ) -> Made:
        env = await self._hall.tools.caller.call(world, world.make, body.options)
        settings = self._hall.settings
        longest = settings.absolute_ttl if absolute is None else min(absolute, settings.absolute_ttl)
        life = Life(self._hall.now(), body.ttl or settings.idle_ttl, longest)
        secret = self._hall.tools.names.session()
        keeper = None
        if self._hall.journal is not None and self._is_kept(body):
            keeper = Keeper(self._hall.journal, secret, strict=body.durability == "strict")
        session = Session(secret, world, env, life, traced=body.trace, tools=self._hall.tools, keeper=keeper)
        session.tenant = tenant
        session.sealed, session.drops = sealed, body.records == "drop"
        try:
            return Made(session, await session.begin(ref, body.player))
        except BaseException:
            await self._hall.tools.caller.call(env, env.close)
            raise


def _form(body: CreateBody) -> bytes:
    """Return what a create asks for; fields that older servers did not know are left out where they say nothing.

    So a create that is asked again is known again by a server that has been upgraded meanwhile.
    """
    return spelled(body.model_dump(exclude={"records"} if body.records == "keep" else None))


def _count(body: CreateBody) -> int:
    """Return how many sessions a create asks for."""
    return len(body.tasks) if body.tasks is not None else body.count or 1
