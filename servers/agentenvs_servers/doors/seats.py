"""A session as a dialect plays it: turns without numbers, resets without keys, everything else as in the hall.

The dialects name no turns, so nothing can be asked again at a seat: what is sent twice is played twice. All that a
session promises besides holds: it is journalled, limited, counted, kept alive by what is asked of it, and ended once.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from agentenvs.core.observation import Observation
from agentenvs_servers.episodes import Episode
from agentenvs_servers.hall import Hall
from agentenvs_servers.keyring import Tenant
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.sessions import Session
from agentenvs_servers.wire import CreateBody, ResetBody, TaskBody
from agentenvs_servers.worlds import World

MOST_SEED = 2**31
"""Seeds that are drawn here are below this."""

OVER = frozenset(
    {
        "closed",
        "diverged",
        "episodes_spent",
        "expired",
        "journal_damaged",
        "session_lost",
        "session_unknown",
        "version_changed",
    }
)
"""Codes of sessions that cannot be reset any more; whoever owns one is given another."""


class Standing(NamedTuple):
    """How an episode stands."""

    episode: str
    turn: int
    ended: bool
    task: dict[str, Any]
    first: bytes
    """The answer to its reset."""
    last: bytes | None
    """The answer to its last turn."""


class Seat:
    """A session, perhaps one that is yet to be made.

    Args:
        hall: The sessions.
        world: What is played.
        tenant: Who plays.
        address: From where.
        session: One that there is already, and that somebody else ends; another is never put in its place.
    """

    def __init__(self, hall: Hall, world: World, tenant: Tenant, address: str = "", session: str | None = None) -> None:
        self.world = world
        self.session = session
        self.owned = session is None
        self.idle = hall.settings.idle_ttl
        """After how many seconds without an answered call the session expires."""
        self._hall = hall
        self._tenant = tenant
        self._address = address
        self._options: Mapping[str, Any] | None = None
        """What the session was made with, where it was made here."""

    def must_have_begun(self) -> str:
        """Return the session's name.

        Raises:
            ProblemError: ``not_begun``.
        """
        if self.session is None:
            raise ProblemError("not_begun")
        return self.session

    async def begin(self, task: TaskBody, options: Mapping[str, Any]) -> dict[str, Any]:
        """Begin an episode; the one that runs is abandoned.

        Args:
            task: Which.
            options: Options of the environment; others than before need another session.

        Returns:
            The answer to the create or reset.

        Raises:
            ProblemError: As a create, or a reset.
        """
        if self.session is not None:
            try:
                if await self._fits(options):
                    return await self._again(self.session, task)
                if not self.owned:
                    raise ProblemError("option_refused", "the options of a session are set when it is made")
                await self.leave()
            except ProblemError as problem:
                if not self.owned or problem.code not in OVER:
                    raise
                self.session = None
        body = CreateBody(env=self.world.spec.id, key=_key(), task=task, options=dict(options))
        made: dict[str, Any] = orjson.loads(await self._hall.create(body, self._tenant, self._address))
        self.session, self._options = made["session"], dict(options)
        return made

    async def _fits(self, options: Mapping[str, Any]) -> bool:
        """Return whether the session has these options."""
        if self._options is not None:
            return options == self._options
        given = (await self.standing()).task["options"]
        return all(given.get(name) == value for name, value in options.items())

    async def _again(self, session: str, task: TaskBody) -> dict[str, Any]:
        async with self._hall.using(session) as found:
            ends = await found.between_turns(_name_of)
            answer = await found.reset(ResetBody(key=_key(), ends=ends, task=task))
        made: dict[str, Any] = orjson.loads(answer)
        return made

    async def act(self, action: Any) -> dict[str, Any]:
        """Play a turn and return its answer.

        Raises:
            ProblemError: ``not_begun``; or as a step.
        """
        async with self._hall.using(self.must_have_begun()) as found:
            answer = await found.play_next(action)
        played: dict[str, Any] = orjson.loads(answer)
        return played

    async def standing(self) -> Standing:
        """Return how the episode stands.

        Raises:
            ProblemError: ``not_begun``; or as a status.
        """
        async with self._hall.using(self.must_have_begun()) as found:
            return await found.between_turns(standing_of)

    async def keep(self) -> None:
        """Keep the session alive.

        Raises:
            ProblemError: ``not_begun``, or it is over.
        """
        async with self._hall.using(self.must_have_begun()) as found:
            self.idle = found.life.idle
            await must_live(found)

    async def leave(self) -> None:
        """End the session, where it has not ended."""
        session, self.session = self.session, None
        if session is not None:
            await end(self._hall, session)


async def end(hall: Hall, session: str) -> bool:
    """End a session; return whether there was one to end."""
    try:
        async with hall.using(session) as found:
            if found.over is not None:
                return False
            await hall.end(found, "closed", "abandoned")
    except ProblemError as problem:
        if problem.code not in OVER:
            raise
        return False
    return True


async def must_live(session: Session) -> None:
    """Refuse a session that is over, also where another worker has ended it; its world is not made again for that.

    Raises:
        ProblemError: ``closed`` or ``expired``.
    """
    session.must_be_open()
    if session.keeper is not None and session.keeper.journal.shared:
        head = await session.keeper.head()
        if head is None or head[0] != "open":
            raise ProblemError("closed" if head is None else head[0])


async def standing_of(episode: Episode) -> Standing:
    """Return how an episode stands."""
    return Standing(episode.name, episode.turn, episode.ended, episode.task, episode.first, episode.answer)


async def _name_of(episode: Episode) -> str:
    return episode.name


def _key() -> str:
    return f"seat-{secrets.token_urlsafe(18)}"


def aimed(
    world: World, split: str | None = None, index: int | None = None, seed: int | None = None
) -> tuple[TaskBody, int]:
    """Return the address of a scenario, and its number in its split.

    Of an endless split a seed is the number; of a finite one it is taken modulo the size. Where neither is given one
    is drawn: the answer tells which it was.

    Args:
        world: What is played.
        split: The default split where None.
        index: Number in the split.
        seed: Another way to name it; counts where there is no index.

    Raises:
        ProblemError: ``task_unknown``; ``sealed_closed``, since only the native protocol keeps the rules of those.
    """
    name = world.spec.default_split if split is None else split
    known = world.splits.get(name)
    if known is not None and known.sealed:
        raise ProblemError("sealed_closed", "it is played through the native protocol alone")
    size = None if known is None else known.size
    number = index
    if number is None:
        number = secrets.randbelow(MOST_SEED if size is None else max(size, 1)) if seed is None else seed
        number = number if size is None else number % max(size, 1)
    task = TaskBody(split=name[:200], index=number)  # a longer name is none in any case
    world.ref(task)
    return task, number


def text_of(observation: Mapping[str, Any]) -> str:
    """Return the plain form of an observation."""
    blocks = observation["blocks"]
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return str(blocks[0]["text"])
    return Observation.from_json(observation).text
