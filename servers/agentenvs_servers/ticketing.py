"""Plays tickets: sealed scenarios for a contestant who holds no token of the server.

A ticket opens its scenarios one after another, in the server's order. As long as one runs, asking for the next gives
that one again, from where it stands: whoever was killed goes on, two that hold the same ticket play the same episode,
and nothing is drawn twice. What is opened and not played to its end counts 0, and so does what is never opened.
"""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any

from agentenvs.core.errors import ConfigError
from agentenvs.core.sealed import sealed_secret_id
from agentenvs.core.task import TaskRef
from agentenvs_servers.dumping import Written, dump
from agentenvs_servers.journal import tickets
from agentenvs_servers.journal.rows import lookup
from agentenvs_servers.journal.tickets import Held
from agentenvs_servers.keeping import Journal
from agentenvs_servers.keyring import Tenant
from agentenvs_servers.names import is_ticket
from agentenvs_servers.presence import LOST
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.requests import current
from agentenvs_servers.worlds import World

if TYPE_CHECKING:
    from agentenvs_servers.hall import Hall

_OVER = LOST | {"closed", "expired", "session_unknown"}
"""Problems of an episode that is over, whatever became of it."""

_MOST_TRIES = 10


class Tickets:
    """The tickets of a server.

    Args:
        hall: Its sessions.
    """

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    async def status(self, ticket: str | None) -> bytes:
        """Return how a ticket stands.

        Raises:
            ProblemError: ``ticket_unknown``, ``sealed_closed``; or why the journal cannot be asked.
        """
        held, world = await self._held(ticket)
        playing = await self._playing(held, world)
        return dump(
            {
                "ticket": held.name,
                "board": held.board,
                "contestant": held.contestant,
                "attempt": held.attempt,
                "split": held.split,
                "planned": len(held.numbers),
                "opened": held.opened,
                "playing": playing is not None,
                "seconds": max(held.deadline - time.time(), 0.0),
                "settled": held.settled is not None,
                "env": world.describe(),
            }
        )

    async def next(self, ticket: str | None) -> bytes:
        """Return the episode that a ticket plays now; a new one where the last is over.

        Raises:
            ProblemError: ``ticket_used``, ``ticket_expired``; or as :meth:`status` and a create.
        """
        await self._hall.sweep()
        for _ in range(_MOST_TRIES):
            held, world = await self._held(ticket)
            playing = await self._playing(held, world)
            if playing is not None:
                return self._told(held, playing)
            if held.opened >= len(held.numbers):
                raise ProblemError("ticket_used", f"it opened {held.opened} scenarios")
            if held.settled is not None or time.time() >= held.deadline:
                raise ProblemError("ticket_expired", f"it opened {held.opened} of {len(held.numbers)} scenarios")
            if self._hall.draining:
                raise ProblemError("draining", headers={"Retry-After": "1"})
            # Whether it was this request that opened it or another: the next look finds it.
            await self._journal.do(tickets.open_next, held, strict=True)
        raise ProblemError("journal_unavailable", "too many ask with this ticket at once", headers={"Retry-After": "1"})

    async def end(self, ticket: str | None, episode: str) -> bytes:
        """Give up an episode, where it still runs, and return how the ticket stands.

        Raises:
            ProblemError: ``episode_unknown``; or as :meth:`status`.
        """
        held, _ = await self._held(ticket)
        session = await self._session(held, episode)
        try:
            async with self._hall.using(session) as found:
                if found.over is None:
                    await self._hall.end(found, "closed", "abandoned")
        except ProblemError as problem:
            if problem.code not in _OVER:
                raise
        return await self.status(ticket)

    async def record(self, ticket: str | None, episode: str) -> bytes:
        """Return the record of an ended episode, redacted.

        Raises:
            ProblemError: ``episode_running``, ``episode_unknown``; or as :meth:`status`.
        """
        held, world = await self._held(ticket)
        session = await self._session(held, episode)
        await self._playing(held, world)  # one that has ended is put by
        async with self._hall.using(session) as found:
            return await found.record(episode)

    @property
    def _journal(self) -> Journal:
        if self._hall.journal is None:
            raise ProblemError("sealed_closed", "its rules need a journal")
        return self._hall.journal

    async def _held(self, ticket: str | None) -> tuple[Held, World]:
        """Return a ticket and its world.

        Raises:
            ProblemError: ``ticket_unknown``, ``sealed_closed``, ``env_unknown``.
        """
        found = None
        if ticket is not None and is_ticket(ticket):
            found = await self._journal.do(tickets.find, lookup(ticket))
        if found is None:
            said = "none was sent" if ticket is None else "the one that was sent is not of this server"
            raise ProblemError("ticket_unknown", said, headers={"WWW-Authenticate": "Bearer"})
        if (request := current.get()) is not None:
            request.tenant = found.tenant
        try:
            secret = sealed_secret_id()
        except ConfigError as error:
            raise ProblemError("sealed_closed", "this server was not given its secret") from error
        if secret != found.secret:
            raise ProblemError("sealed_closed", "the ticket is of another secret than this server's")
        return found, self._hall.world(found.env)

    async def _session(self, held: Held, episode: str) -> str:
        session = None if "\0" in episode else await self._journal.do(tickets.session_of, held, episode)
        if session is None:
            raise ProblemError("episode_unknown", "the ticket opened no such episode")
        return session

    async def _playing(self, held: Held, world: World) -> dict[str, Any] | None:
        """Return the episode that a ticket plays, as its agent sees it, with its key; None where there is none.

        One that came to its end is put by, so that its slot is free and its record kept.
        """
        if held.opened == 0 or held.settled is not None:
            return None
        drawn = json.loads(await self._drawn(held, world, held.opened - 1))
        try:
            async with self._hall.using(drawn["session"]) as found:
                if found.over is not None:
                    return None
                view: dict[str, Any] = json.loads(await found.agent_view(drawn["episode"]))
                if not view["ended"]:
                    return {**view, "agent_key": drawn["agent_key"]}
                await self._hall.end(found, "closed", "abandoned")
        except ProblemError as problem:
            if problem.code not in _OVER:
                raise
        return None

    async def _drawn(self, held: Held, world: World, place: int) -> bytes:
        """Return the answer to the create of a scenario; it is made once, however often it is asked for."""
        left = max(math.ceil(held.deadline - time.time()), 1)
        tenant = Tenant(held.tenant)
        ref = TaskRef(held.split, held.numbers[place])
        return await self._hall.creates.draw(tenant, str(place), world, ref, left)

    @staticmethod
    def _told(held: Held, playing: dict[str, Any]) -> bytes:
        names = ("agent_key", "episode", "task", "turn")
        return dump(
            {
                "ticket": held.name,
                "place": held.opened,
                "planned": len(held.numbers),
                **{name: playing[name] for name in names},
                "observation": Written(dump(playing["observation"])),
            }
        )
