"""Makes sessions: once however often it is asked, within the limits, in memory and in the journal.

A create that is under way, or whose sessions live in memory alone, is remembered here by its key; one that is in the
journal is remembered there, for every worker. Of a sealed split the server gives out the scenarios, each once.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import zlib
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from agentenvs.core.errors import ConfigError
from agentenvs.core.sealed import sealed_secret_id
from agentenvs.core.spec import SplitSpec
from agentenvs.core.task import TaskRef
from agentenvs_servers.dumping import join, spelled
from agentenvs_servers.journal import operations
from agentenvs_servers.journal.rows import CreateRow, lookup
from agentenvs_servers.keeping import Keeper
from agentenvs_servers.presence import Life
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.sessions import Session
from agentenvs_servers.wire import CreateBody, TaskBody
from agentenvs_servers.worlds import World

if TYPE_CHECKING:
    from agentenvs_servers.hall import Hall


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

    async def create(self, body: CreateBody, tenant: str) -> bytes:
        """Make one session, or a group, and return the answer.

        Raises:
            ProblemError: ``draining``, ``env_unknown``, ``key_conflict``, ``at_capacity``, ``invalid_request``,
                ``option_refused``, ``task_unknown``, ``sealed_closed``, ``environment_failed``.
        """
        world = self._hall.world(body.env)
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
        asked = body.durability or ("memory" if self._hall.journal is None else "group")
        if asked != "memory" and self._hall.journal is None:
            raise ProblemError("durability_refused", f"this server keeps no journal, so not {asked!r}")
        if asked == "memory" and self._hall.journal is not None and self._hall.journal.shared:
            raise ProblemError("durability_refused", "of several workers none has the others' memory")
        return asked != "memory"

    async def _known_create(self, tenant: str, key: str) -> CreateRow | None:
        return None if self._hall.journal is None else await self._hall.journal.do(operations.find_create, tenant, key)

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
        kept = self._hall.journal is not None and self._creates[name].living == 0  # the journal remembers it
        if task.cancelled() or task.exception() is not None or kept:
            del self._creates[name]

    def _admit(self, body: CreateBody) -> int:
        """Return how many sessions a create asks for, where there is room."""
        if self._hall.draining:
            raise ProblemError("draining", headers={"Retry-After": "1"})
        count = len(body.tasks) if body.tasks is not None else body.count or 1
        if count > self._hall.settings.max_group:
            raise ProblemError(
                "invalid_request", f"{count} sessions at once; the limit is {self._hall.settings.max_group}"
            )
        if body.ttl is not None and body.ttl > self._hall.settings.max_idle_ttl:
            raise ProblemError("invalid_request", f"ttl: the limit is {self._hall.settings.max_idle_ttl} seconds")
        if len(self._hall.open) + self._reserved + count > self._hall.settings.max_sessions:
            raise self._at_capacity(len(self._hall.open), count)
        self._reserved += count
        return count

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

    async def _make(self, world: World, body: CreateBody, count: int, name: tuple[str, str]) -> bytes:
        tasks: list[TaskBody | None] = list(body.tasks) if body.tasks is not None else [body.task] * count
        made: list[Session] = []
        answers: list[bytes] = []
        try:
            for task in tasks:
                session, answer = await self._one(world, body, task, name)
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
            self._hall.adopt(session)
            if session.keeper is None:
                self._made_by[lookup(session.name)] = name
                self._creates[name].living += 1
        single = body.tasks is None and body.count is None
        return answers[0] if single else b'{"sessions":[%b]}' % b",".join(answers)

    async def _written(self, made: list[Session], body: CreateBody, name: tuple[str, str]) -> CreateRow | None:
        """Write a create to the journal, and return what is there where another worker was faster.

        Raises:
            ProblemError: ``at_capacity`` or ``journal_unavailable``.
        """
        if self._hall.journal is None or not self._is_kept(body):
            return None
        tenant, key = name
        single = body.tasks is None and body.count is None
        form = hashlib.sha256(spelled(body.model_dump())).digest()
        rows = [session.rows(tenant, key, place) for place, session in enumerate(made)]
        room = self._hall.settings.max_sessions
        strict = body.durability == "strict"
        try:
            new = await self._hall.journal.do_now(
                operations.insert_create, (tenant, key, form, single), rows, room, None, strict=strict
            )
        except operations.Full as full:
            raise self._at_capacity(full.open, len(made)) from full
        return None if new else await self._known_create(tenant, key)

    async def _unmake(self, made: list[Session]) -> None:
        for session in made:
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

    async def _one(
        self, world: World, body: CreateBody, task: TaskBody | None, name: tuple[str, str]
    ) -> tuple[Session, bytes]:
        split = world.sealed(task) if body.tasks is None else None
        ref = world.ref(task) if split is None else await self._sealed(world, body, split, name)
        return await self._begun(world, body, ref, sealed=split is not None)

    async def _begun(self, world: World, body: CreateBody, ref: TaskRef, *, sealed: bool) -> tuple[Session, bytes]:
        env = await self._hall.tools.caller.call(world, world.make, body.options)
        life = Life(self._hall.now(), body.ttl or self._hall.settings.idle_ttl, self._hall.settings.absolute_ttl)
        secret = self._hall.tools.names.session()
        keeper = None
        if self._hall.journal is not None and self._is_kept(body):
            keeper = Keeper(self._hall.journal, secret, strict=body.durability == "strict")
        session = Session(secret, world, env, life, traced=body.trace, tools=self._hall.tools, keeper=keeper)
        session.sealed = sealed
        try:
            return session, await session.begin(ref, body.player)
        except BaseException:
            await self._hall.tools.caller.call(env, env.close)
            raise
