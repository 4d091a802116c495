"""Pages for a browser: an agent key's episode as a website that works without scripts.

``GET /v1/agent/{agent_key}/web`` shows the page that the environment describes
(:meth:`~agentenvs.core.environment.Environment.webpage`); each button is a form that plays one action in text and leads
back to the page. Every form holds the number of its turn, so that a page that is sent twice, or an old one, is played
once. Whoever has the address may play that one episode, and nothing else; so it goes to no other site as a referrer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agentenvs.core.webpage import WebPage
from agentenvs_servers.doors import pages
from agentenvs_servers.doors.routing import Call, Route
from agentenvs_servers.episodes import Episode
from agentenvs_servers.hall import Hall
from agentenvs_servers.handlers import Answer
from agentenvs_servers.problems import ProblemError

PATH = "/v1/agent/{agent_key}/web"

_PASSED = ("turn_past", "turn_conflict", "episode_ended")
"""Problems of a form that is not of the page as it is now: the page is shown, and nothing played."""
_MOST_FIELDS = 8


@dataclass(frozen=True, slots=True)
class Standing:
    """How an episode stands, as its page needs it."""

    page: WebPage
    instruction: str
    turn: int
    budgets: dict[str, int]
    ended: bool
    reward: float | None


class Web:
    """The door.

    Args:
        hall: The sessions.
    """

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    @property
    def routes(self) -> Sequence[Route]:
        """Its routes."""
        show, play = pages.paged(self._hall, self.show), pages.paged(self._hall, self.play)
        return (
            Route("GET", PATH, show, "The episode as a page.", prefixed=False),
            Route("POST", PATH, play, "Play the action of a form, and show the page.", prefixed=False),
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep up nothing: everything is in the hall."""
        yield

    async def show(self, call: Call) -> Answer:
        """Show the page."""
        async with self._hall.playing(call.names["agent_key"]) as (session, episode):
            session.must_be_agents(episode)
            standing = await session.between_turns(self._standing)
        return pages.page("web.html.j2", standing=standing, page=standing.page)

    async def play(self, call: Call) -> Answer:
        """Play the action of a form."""
        pages.refuse_foreign(call)
        key = call.names["agent_key"]
        async with self._hall.playing(key) as (session, episode):
            session.must_be_agents(episode)
        fields = await pages.read_form(call, self._hall.settings, _MOST_FIELDS)
        turn = pages.turn_of(fields)
        if "action" not in fields:
            raise ProblemError("invalid_request", "the form of a page is wanted: turn and action")
        action = "".join(fields.get(name, "") for name in ("before", "action", "after"))
        try:
            async with self._hall.playing(key) as (session, episode):
                await session.play(episode, turn, action, agent=True)
        except ProblemError as problem:
            if problem.code not in _PASSED:
                raise
        return pages.led_to(call.scope["path"])

    async def _standing(self, episode: Episode) -> Standing:
        env = episode.env
        page: WebPage = await self._hall.tools.caller.call(env, env.webpage)
        ended = episode.ended
        return Standing(
            page,
            str(episode.task["instruction"]),
            episode.turn,
            dict(env.observation.budgets),
            ended,
            episode.verdict.reward if ended and episode.verdict is not None else None,
        )
