"""The playground: a person plays any world by hand, with its tools as forms, in a browser that needs no scripts.

``/play`` lists the worlds; a world's page chooses scenario and options; an episode's page shows the task, what is
seen, and a form for each thing that can be done. It is the native protocol with a face: the same sessions, limits and
tenants, entered with the same token (:mod:`~agentenvs_servers.doors.play_gate`), and records that equal those of the
same actions from a program. A form holds episode and turn, so that a page that is sent twice, or an old one, is played
once; every form leads back to a page. Taking turns back plays the others again in a new episode of the session. Sealed
scenarios are not played here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

import orjson

from agentenvs_servers.asgi import address_of
from agentenvs_servers.doors import pages, play_actions, play_choosing, play_code, play_gate, play_page, play_story
from agentenvs_servers.doors.play_actions import EMPTY, Draft
from agentenvs_servers.doors.play_story import Seen, Story
from agentenvs_servers.doors.routing import Call, Route
from agentenvs_servers.hall import Hall
from agentenvs_servers.handlers import RECORD_TYPE, Answer
from agentenvs_servers.keyring import Tenant
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.sessions import Session
from agentenvs_servers.settings import V1
from agentenvs_servers.wire import ResetBody

PATH = play_gate.PATH
EPISODE = f"{PATH}/sessions/{{session}}"
WORLD = f"{PATH}/worlds/{{world}}"

_MOST_FIELDS = 300
_OLD = frozenset(
    {
        "closed",
        "episode_conflict",
        "episode_ended",
        "expired",
        "key_conflict",
        "turn_ahead",
        "turn_conflict",
        "turn_past",
    }
)
"""Problems of a form that is not of the page as it is now: the page is shown, and nothing played."""

Guarded: TypeAlias = Callable[[Call, Tenant], Awaitable[Answer]]


class Play:
    """The door.

    Args:
        hall: The sessions.
    """

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._seen = Seen()

    @property
    def routes(self) -> Sequence[Route]:
        """Its routes."""
        open_, shut = self._open, self._shut
        return (
            Route("GET", "/", open_(self.home), "The way to the playground.", prefixed=False),
            Route("GET", f"{PATH}/", open_(self.home), "The way to the playground.", prefixed=False),
            Route("GET", PATH, shut(self.worlds), "The playground: the worlds of this server.", prefixed=False),
            Route("POST", f"{PATH}/enter", open_(self.enter), "Enter with a token.", prefixed=False),
            Route("POST", f"{PATH}/leave", open_(self.leave), "Forget the token.", prefixed=False),
            Route("GET", WORLD, shut(self.choose), "Choose a scenario of a world.", prefixed=False),
            Route("POST", WORLD, shut(self.begin), "Begin an episode.", prefixed=False),
            Route("GET", EPISODE, shut(self.show), "The episode of a session as a page.", prefixed=False),
            Route("POST", EPISODE, shut(self.act), "Play the action of a form.", prefixed=False),
            Route("POST", f"{EPISODE}/back", shut(self.back), "Take turns back.", prefixed=False),
            Route("POST", f"{EPISODE}/next", shut(self.next), "Begin another episode of the session.", prefixed=False),
            Route("POST", f"{EPISODE}/end", shut(self.end), "End the session.", prefixed=False),
            Route("GET", f"{EPISODE}/record", shut(self.record), "Download a record.", prefixed=False),
            Route("GET", f"{EPISODE}/code", shut(self.code), "The episode as a program.", prefixed=False),
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep up nothing: everything is in the hall."""
        yield

    def _open(self, handler: Callable[[Call], Awaitable[Answer]]) -> Callable[[Call], Awaitable[Answer | None]]:
        return pages.paged(self._hall, handler, PATH)

    def _shut(self, handler: Guarded) -> Callable[[Call], Awaitable[Answer | None]]:
        """Return a handler for those alone who may control sessions; others are shown where to enter."""

        async def guarded(call: Call) -> Answer:
            if call.scope["method"] == "POST":
                pages.refuse_foreign(call)
            try:
                tenant = play_gate.tenant_of(call, self._hall)
            except ProblemError as problem:
                if problem.code not in ("unauthorized", "wrong_scope") or not pages.is_browser(call):
                    raise
                self._hall.metrics.problems.add(problem.code)
                return _gate(problem.status, call.scope["path"] if call.scope["method"] == "GET" else PATH, "")
            return await handler(call, tenant)

        return self._open(guarded)

    # ---- entering --------------------------------------------------------------------------------------------------

    async def home(self, call: Call) -> Answer:
        """Lead to the playground."""
        return pages.led_to(PATH)

    async def enter(self, call: Call) -> Answer:
        """Take a token."""
        pages.refuse_foreign(call)
        fields = await pages.read_form(call, self._hall.settings, _MOST_FIELDS)
        place = play_gate.place_of(fields.get("to", ""))
        try:
            cookie = play_gate.entered(call, self._hall, fields.get("token", ""))
        except ProblemError as problem:
            if not pages.is_browser(call):
                raise
            self._hall.metrics.problems.add(problem.code)
            return _gate(problem.status, place, "That is no token of this server that may play.")
        return pages.led_to(place, {"Set-Cookie": cookie})

    async def leave(self, call: Call) -> Answer:
        """Forget the token."""
        pages.refuse_foreign(call)
        return pages.led_to(PATH, {"Set-Cookie": play_gate.left(call)})

    # ---- choosing --------------------------------------------------------------------------------------------------

    async def worlds(self, call: Call, tenant: Tenant) -> Answer:
        """List the worlds."""
        worlds = self._hall.worlds.values()
        return pages.page("play_worlds.html.j2", worlds=worlds, asks=self._hall.keyring.asks, path=PATH)

    async def choose(self, call: Call, tenant: Tenant) -> Answer:
        """Show a world, and what may be chosen of it."""
        world = self._hall.world(call.names["world"])
        return play_choosing.page(world, play_choosing.offered(world, play_page.query(call)))

    async def begin(self, call: Call, tenant: Tenant) -> Answer:
        """Begin an episode as a form says."""
        world = self._hall.world(call.names["world"])
        fields = await pages.read_form(call, self._hall.settings, _MOST_FIELDS)
        chosen = play_choosing.chosen(world, fields, self._hall.settings.max_idle_ttl)
        if chosen.body is None:
            return play_choosing.page(world, chosen.sheets, status=422)
        try:
            made = orjson.loads(await self._hall.create(chosen.body, tenant, address_of(call.scope)))
        except ProblemError as problem:
            if problem.code not in play_choosing.MENDED:
                raise
            return play_choosing.page(world, chosen.sheets, problem=problem, status=problem.status)
        return pages.led_to(_path(made["session"]))

    # ---- playing ---------------------------------------------------------------------------------------------------

    async def show(self, call: Call, tenant: Tenant) -> Answer:
        """Show the episode."""
        async with self._hall.using(call.names["session"]) as session:
            return await self._page(call, session)

    async def act(self, call: Call, tenant: Tenant) -> Answer:
        """Play the action of a form; one that cannot be read is shown again."""
        fields = await pages.read_form(call, self._hall.settings, _MOST_FIELDS)
        turn = pages.turn_of(fields)
        async with self._hall.using(call.names["session"]) as session:
            if session.sealed:
                raise ProblemError("sealed_closed", "it is played through the native protocol alone")
            said = play_actions.said(session.world.spec, fields)
            if said.draft is not None:
                return await self._page(call, session, said.draft, (fields.get("episode", ""), turn))
            try:
                await session.play(fields.get("episode", ""), turn, said.action)
            except ProblemError as problem:
                if problem.code == "action_too_large":
                    draft = Draft(slip=f"That is too long: {problem.detail}.")
                    return await self._page(call, session, draft, (fields.get("episode", ""), turn))
                if problem.code not in _OLD | {"environment_failed"}:
                    raise
                return self._stays(session, problem.code)
        return pages.led_to(_path(session.name))

    async def back(self, call: Call, tenant: Tenant) -> Answer:
        """Play the first turns of an episode again, and so take back those after them."""
        fields = await pages.read_form(call, self._hall.settings, _MOST_FIELDS)
        key, kept = play_choosing.key_of(fields), play_choosing.number_of(fields.get("kept", ""))
        async with self._hall.using(call.names["session"]) as session:
            story = await play_story.story_of(self._hall, session)
            if story.episode != fields.get("episode") or kept is None or not kept < story.turn:
                return self._stays(session, "turn_past")
            if not story.can_go_back:
                return self._stays(session, "not_forkable")
            try:
                opened = await session.reset(ResetBody(key=key, ends=story.episode, task="same"))
                same = await self._again(session, orjson.loads(opened)["episode"], story, kept)
            except ProblemError as problem:
                if problem.code not in _OLD:
                    raise
                return self._stays(session, problem.code)
        return pages.led_to(_path(session.name)) if same else self._stays(session, "diverged")

    async def _again(self, session: Session, episode: str, story: Story, kept: int) -> bool:
        """Play turns of a story in another episode; returns whether they went the same way."""
        for turn, line in enumerate(story.turns[:kept], 1):
            answer = orjson.loads(await session.play(episode, turn, line["action"]))
            if play_story.digest_of(answer["observation"]) != line["observation"]:
                return False
            if turn % play_story.BREATH_TURNS == 0:
                await asyncio.sleep(0)
        return True

    async def next(self, call: Call, tenant: Tenant) -> Answer:
        """Begin another episode of the session: the same scenario again, or the one after it."""
        fields = await pages.read_form(call, self._hall.settings, _MOST_FIELDS)
        task: Literal["same"] | None = None if fields.get("task") == "next" else "same"
        key = play_choosing.key_of(fields)
        async with self._hall.using(call.names["session"]) as session:
            if session.sealed:
                raise ProblemError("sealed_closed", "it is played through the native protocol alone")
            try:
                await session.reset(ResetBody(key=key, ends=fields.get("episode", "")[:200], task=task))
            except ProblemError as problem:
                if problem.code not in _OLD | {"split_exhausted"}:
                    raise
                return self._stays(session, problem.code)
        return pages.led_to(_path(session.name))

    async def end(self, call: Call, tenant: Tenant) -> Answer:
        """End the session; what was played counts as it stands."""
        await pages.read_form(call, self._hall.settings, _MOST_FIELDS)
        async with self._hall.using(call.names["session"]) as session:
            if session.over is None:
                await self._hall.end(session, "closed", "abandoned")
        return pages.led_to(_path(session.name))

    # ---- taking away -----------------------------------------------------------------------------------------------

    async def record(self, call: Call, tenant: Tenant) -> Answer:
        """Give the record of an episode that has ended."""
        episode = play_page.query(call).get("episode")
        async with self._hall.using(call.names["session"]) as session:
            data = await session.record(episode)
            name = f"{session.world.spec.slug}-{episode or 'last'}".encode("ascii", "ignore").decode()
        clean = "".join(letter for letter in name if letter.isalnum() or letter in "-_.")
        more = {
            "Content-Disposition": f'attachment; filename="{clean}.jsonl"',
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        }
        return Answer(200, data, RECORD_TYPE, more)

    async def code(self, call: Call, tenant: Tenant) -> Answer:
        """Show the episode as programs that play it again."""
        async with self._hall.using(call.names["session"]) as session:
            story = await play_story.story_of(self._hall, session)
        host = call.headers.get(b"host", b"127.0.0.1").decode("latin-1")
        url, asks = f"{call.scope.get('scheme', 'http')}://{host}", self._hall.keyring.asks
        return pages.page(
            "play_code.html.j2",
            scripted=True,
            story=story,
            path=_path(session.name),
            home=PATH,
            native=V1 in self._hall.settings.open_doors,
            python=play_code.python(story, url),
            curl=play_code.curl(story, url, token=asks),
        )

    # ---- inside ----------------------------------------------------------------------------------------------------

    async def _page(
        self, call: Call, session: Session, draft: Draft = EMPTY, form: tuple[str, int] | None = None
    ) -> Answer:
        """Return the page of an episode.

        Args:
            call: The request.
            session: Whose.
            draft: What stands in its forms.
            form: Episode and turn of the form that was sent; an old one is not shown again.
        """
        story = await play_story.story_of(self._hall, session)
        if form is not None and (story.ended or form != (story.episode, story.turn + 1)):
            return self._stays(session, "turn_past")
        asked = play_page.query(call)
        view = play_page.view_of(story, asked)
        seen = await play_story.seen(self._hall, story, {view.at, *view.turns}, self._seen)
        return play_page.page(story, draft, seen, view, path=_path(session.name), home=PATH)

    def _stays(self, session: Session, why: str) -> Answer:
        return pages.led_to(f"{_path(session.name)}?said={why}")


def _path(session: str) -> str:
    return f"{PATH}/sessions/{session}"


def _gate(status: int, place: str, slip: str) -> Answer:
    return pages.page("play_gate.html.j2", status=status, place=play_gate.place_of(place), slip=slip, path=PATH)
