"""NeMo Gym: a resources server whose sessions are episodes, and the rows of a dataset for its agents.

``/seed_session`` begins the episode of a row, each tool of the world is an endpoint, ``/verify`` pays the verdict. An
agent of NeMo Gym shows its model what stands in the row, so the row holds the first observation; the address beside it
makes the same episode again. What a tool answers goes to the model as it is: facts of turns have no place there, and
stand with the verdict.

An episode is in the memory of the process that began it, so there is one worker. An agent that dies never verifies:
beyond ``most_sessions`` the one that was asked longest ago is given up. A verdict is kept as long, because NeMo Gym's
client repeats a request whose connection broke.
"""
# no annotations as text: FastAPI reads those of functions in a function, where it could not look such names up

import asyncio
from collections import OrderedDict
from typing import Annotated, Any

from agentenvs.adapters.plugs.calls import calls
from agentenvs.adapters.plugs.episode import Episode, outcome
from agentenvs.adapters.plugs.lazy import attributes, needed
from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError

MOST_SESSIONS = 10_000
"""Sessions that are kept where the configuration does not say."""

_PACKAGE = "nemo-gym"
_RESERVED = frozenset({"seed_session", "verify", "aggregate_metrics"})


class _Session:
    """An episode of a session, and what it came to."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self.verdict: dict[str, JSON] | None = None
        self._tools = calls(episode.spec)
        self._turns: list[JSON] = []
        self._lock = asyncio.Lock()

    async def call(self, name: str, arguments: Any) -> dict[str, JSON]:
        """Play a call; what is nonsense costs a turn."""
        async with self._lock:
            if self.verdict is not None or self.episode.env.ending is not None:
                return {"error": "the episode has ended"}
            known = self._tools.get(name) if isinstance(arguments, dict) else None
            action = {"tool": name, "arguments": arguments} if known is None else known.action(arguments)
            heard = await self.episode.aplay(action)
            self._turns.append({**heard.facts, "reward": heard.reward})
            return {"observation": heard.text, "done": heard.done}

    async def judge(self) -> dict[str, JSON]:
        """Return the verdict, the same however often it is asked for, and give up the episode."""
        async with self._lock:
            if self.verdict is None:
                verdict = await asyncio.to_thread(self.episode.verdict)
                told = {"turns": self._turns, "reasons": list(verdict.reasons)}
                self.verdict = {"reward": verdict.reward, **outcome(verdict), "agentenvs": told}
                await asyncio.to_thread(self.episode.close)
            return self.verdict


class _Sessions:
    """Sessions by name; of too many, the one that was asked longest ago is given up."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, _Session] = OrderedDict()

    async def add(self, name: str, session: _Session, most: int) -> None:
        given_up = [self._found.pop(name, None)]
        self._found[name] = session
        while len(self._found) > most:
            given_up.append(self._found.popitem(last=False)[1])
        for old in filter(None, given_up):
            await asyncio.to_thread(old.episode.close)

    def get(self, name: str) -> _Session | None:
        if name in self._found:
            self._found.move_to_end(name)
        return self._found.get(name)


def rows(
    env: str, agent: str, split: str = "", start: int = 0, count: int = 100, url: str = "", **options: Any
) -> list[dict[str, JSON]]:
    """Return rows of a dataset for an agent that calls tools.

    Args:
        env: As :func:`agentenvs.make` takes it.
        agent: The name of the agent in the configuration of NeMo Gym.
        split: The default one where empty.
        start: Number of the first scenario.
        count: How many at the most.
        url: A server.
        **options: Options of the environment; the server's configuration must have the same.

    Raises:
        UserError: As for :func:`agentenvs.make`.
    """
    episode = Episode(env, url=url or None, tools=True, **options)
    try:
        tools: list[JSON] = [
            {
                "type": "function",
                "name": call.name,
                "description": call.description,
                "parameters": dict(call.parameters),
                "strict": False,
            }
            for call in calls(episode.spec).values()
        ]
        return [
            {
                "responses_create_params": {"input": list(episode.messages(ref)), "tools": tools},
                "agent_ref": {"type": "responses_api_agents", "name": agent},
                **ref.to_json(),
            }
            for ref in episode.tasks(split or None, start, count)
        ]
    finally:
        episode.close()


def _must_fit(workers: int | None, episode: Episode) -> None:
    """Refuse what NeMo Gym could not serve; ends the episode.

    Raises:
        ConfigError: There is to be more than one worker, or the world has a tool of a name that is taken.
    """
    names = set(calls(episode.spec))
    episode.close()
    if (workers or 1) > 1:
        raise ConfigError("episodes live in one process", fix="num_workers: 1, or several servers")
    if taken := sorted(_RESERVED & names):
        raise ConfigError(f"a tool is called {taken[0]}, as an endpoint of NeMo Gym is")


def _name(request: Any) -> str:
    return str(request.session[needed("nemo_gym.server_utils", _PACKAGE).SESSION_ID_KEY])


def _server() -> type:
    base = needed("nemo_gym.base_resources_server", _PACKAGE)
    fastapi, pydantic = needed("fastapi", _PACKAGE), needed("pydantic", _PACKAGE)
    request_of, WorldCall = fastapi.Request, Annotated[Any, fastapi.Body()]

    class WorldConfig(base.BaseResourcesServerConfig):  # type: ignore[misc, name-defined]
        env: str = "household"
        url: str = ""
        options: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it
        most_sessions: int = MOST_SESSIONS

    class WorldSeed(base.BaseSeedSessionRequest):  # type: ignore[misc, name-defined]
        split: str = ""
        index: int = 0

    class WorldVerify(base.BaseVerifyRequest):  # type: ignore[misc, name-defined]
        model_config = pydantic.ConfigDict(extra="allow")

    class WorldVerified(base.BaseVerifyResponse):  # type: ignore[misc, name-defined]
        model_config = pydantic.ConfigDict(extra="allow")

    class WorldResourcesServer(base.SimpleResourcesServer):  # type: ignore[misc, name-defined]
        """A world; its configuration has ``env``, ``url``, ``options`` and ``most_sessions``."""

        config: WorldConfig
        _sessions: _Sessions = pydantic.PrivateAttr(default_factory=_Sessions)

        def setup_webserver(self) -> Any:
            """Return the application: NeMo Gym's own routes, and the tools.

            Raises:
                ConfigError: There is to be more than one worker, or the world has a tool of a name that is taken.
                UserError: As for :func:`agentenvs.make`.
            """
            _must_fit(self.config.num_workers, self._episode())
            app = super().setup_webserver()
            app.post("/{tool}")(self.call)
            return app

        async def seed_session(self, request: request_of, body: WorldSeed) -> Any:  # type: ignore[valid-type]
            """Begin the episode of a row; one that the session had is given up."""
            episode = await asyncio.to_thread(self._episode)
            await asyncio.to_thread(episode.begin, episode.address(body.split or None, body.index))
            await self._sessions.add(_name(request), _Session(episode), self.config.most_sessions)
            return base.BaseSeedSessionResponse()

        async def call(self, tool: str, request: request_of, body: WorldCall) -> Any:  # type: ignore[valid-type]
            """Play a call of a tool."""
            return await self._session(request).call(tool, body)

        async def verify(self, request: request_of, body: WorldVerify) -> WorldVerified:  # type: ignore[valid-type]
            """Pay the verdict; an episode that still runs was cut off."""
            verdict = await self._session(request).judge()
            return WorldVerified(**{**body.model_dump(), **verdict})

        def _episode(self) -> Episode:
            return Episode(self.config.env, url=self.config.url or None, tools=True, **self.config.options)

        def _session(self, request: Any) -> _Session:
            found = self._sessions.get(_name(request))
            if found is None:
                raise fastapi.HTTPException(404, "this session has no episode: /seed_session comes first")
            return found

    return WorldResourcesServer


__getattr__ = attributes(__name__, {"WorldResourcesServer": _server}, globals())
