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
from functools import cache
from typing import Any
from urllib.parse import parse_qs

from jinja2 import Environment as Templates
from jinja2 import PackageLoader, StrictUndefined

from agentenvs.core.webpage import WebPage
from agentenvs_servers import bodies, sockets
from agentenvs_servers.doors.routing import Call, Route
from agentenvs_servers.episodes import Episode
from agentenvs_servers.hall import Hall
from agentenvs_servers.handlers import Answer
from agentenvs_servers.problems import ProblemError

PATH = "/v1/agent/{agent_key}/web"
FORM = b"application/x-www-form-urlencoded"

_PASSED = ("turn_past", "turn_conflict", "episode_ended")
"""Problems of a form that is not of the page as it is now: the page is shown, and nothing played."""
_MOST_FIELDS = 8
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


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
        return (
            Route("GET", PATH, self.show, "The episode as a page.", prefixed=False),
            Route("POST", PATH, self.play, "Play the action of a form, and show the page.", prefixed=False),
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
        html = _templates().get_template("web.html.j2").render(standing=standing, page=standing.page)
        return Answer(200, html.encode(), "text/html; charset=utf-8", _HEADERS)

    async def play(self, call: Call) -> Answer:
        """Play the action of a form."""
        sockets.refuse_foreign(call.headers)
        key = call.names["agent_key"]
        async with self._hall.playing(key) as (session, episode):
            session.must_be_agents(episode)
        turn, action = await self._form(call)
        try:
            async with self._hall.playing(key) as (session, episode):
                await session.play(episode, turn, action, agent=True)
        except ProblemError as problem:
            if problem.code not in _PASSED:
                raise
        return Answer(303, b"", "text/plain", {**_HEADERS, "Location": call.scope["path"]})

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

    async def _form(self, call: Call) -> tuple[int, str]:
        """Return turn and action of a form.

        Raises:
            ProblemError: ``media_type`` or ``invalid_request``; or that the body cannot be read.
        """
        kind = call.headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind != FORM:
            raise ProblemError("media_type", "a form is wanted")
        headers = {**call.headers, b"content-type": b"application/json"}  # else the bounds are those of every body
        data = await bodies.read(call.receive, headers, self._hall.settings)
        try:
            fields = parse_qs(
                data.decode(), keep_blank_values=True, strict_parsing=True, max_num_fields=_MOST_FIELDS, errors="strict"
            )
            turn = int(fields["turn"][0])
            action = "".join(fields.get(name, [""])[0] for name in ("before", "action", "after"))
        except (ValueError, KeyError, UnicodeDecodeError) as error:
            raise ProblemError("invalid_request", "the form of a page is wanted: turn and action") from error
        if turn < 1:
            raise ProblemError("invalid_request", "turns are counted from 1")
        return turn, action


@cache
def _templates() -> Templates:
    made = Templates(
        loader=PackageLoader("agentenvs_servers.doors"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["kind"] = _kind
    return made


def _kind(part: Any) -> str:
    return type(part).__name__
