"""A session: one world that plays one episode after another for whoever holds its name.

Requests of a session run one at a time, in the order in which they came. What changes the world has a name of its own
(the turn, the key of a reset), so that a request asked twice is done once; and once begun it comes to its end, whether
or not its client still waits. The world of a session is closed with it; the records of its episodes stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from agentenvs.core.environment import Environment
from agentenvs.core.task import TaskRef
from agentenvs.core.verdict import Ending
from agentenvs_servers.dumping import Written, dump, join, spelled
from agentenvs_servers.episodes import Episode, begin, unpack
from agentenvs_servers.failures import told
from agentenvs_servers.names import Names
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.settings import Settings
from agentenvs_servers.wire import PlayerBody, ResetBody, TaskBody
from agentenvs_servers.worlds import Caller, World, look_up

KEPT_KEYS = 1_000
"""Keys of past resets that a session remembers."""

SESSION_BYTES = 4_096
"""About what a session takes besides its records, once it is over."""

KEY_BYTES = 256
"""About what an agent key takes."""

T = TypeVar("T")

log = logging.getLogger("agentenvs.server")


class Life(NamedTuple):
    """When a session ends by itself; seconds of the server's clock."""

    born: float
    idle: int
    absolute: int


class Session:
    """An open or closed session; see :class:`~agentenvs_servers.hall.Hall`, which makes them.

    Args:
        name: The session's secret name.
        world: What it plays.
        env: The world's environment, of this session alone.
        life: How long.
        traced: Whether to keep the traces of every turn.
        tools: What the sessions of a server share.
    """

    def __init__(self, name: str, world: World, env: Environment, life: Life, *, traced: bool, tools: Tools) -> None:
        self.name = name
        self.world = world
        self.life = life
        self.touched = life.born
        self.over: tuple[str, float] | None = None
        """``closed`` or ``expired``, and when."""
        self.busy = 0
        """Requests that run or wait."""
        self.farewell: bytes | None = None
        """The answer to its closing."""
        self.records: OrderedDict[str, bytes] = OrderedDict()
        """Packed records of past episodes, by episode id."""
        self.agents: list[bytes] = []
        """Digests of the agent keys of its episodes."""
        self._env = env
        self._inline = env.spec.capabilities.execution == "inline" and not env._asynchronous
        self._traced = traced
        self._tools = tools
        self._lock = asyncio.Lock()
        self._current: Episode | None = None
        self._begun = 0
        self._keys: OrderedDict[str, bytes] = OrderedDict()
        self._reset: tuple[str, bytes] | None = None
        """Key and answer of the last reset."""

    # ---- requests --------------------------------------------------------------------------------------------------

    async def begin(self, ref: TaskRef, player: PlayerBody) -> bytes:
        """Play the first episode and return the answer to the create.

        Raises:
            ProblemError: ``task_unknown`` or ``environment_failed``.
        """
        await self._tools.caller.call(self._env, look_up, self._env, ref)
        await self._begin(ref, player)
        return join(self.current.first, session=self.name, env=self.world.spec.id, ttl=self.ttl())

    async def reset(self, body: ResetBody) -> bytes:
        """Play another episode.

        Raises:
            ProblemError: ``key_conflict``, ``episode_conflict``, ``episodes_spent``, ``split_exhausted``,
                ``task_unknown``, ``sealed_closed``, ``environment_failed``; all but the last leave the running episode
                as it is.
        """
        return await self._to_its_end(self._reset_once(body))

    async def _reset_once(self, body: ResetBody) -> bytes:
        async with self._lock:
            self.must_be_open()
            form = spelled(body.model_dump())
            known = self._keys.get(body.key)
            if known is not None and known != form:
                raise ProblemError("key_conflict", "it was used for another reset")
            if known is not None and self._reset is not None and self._reset[0] == body.key:
                return self._reset[1]
            self._must_play(body.ends)
            if self._begun >= self._tools.settings.max_episodes:
                raise ProblemError("episodes_spent", f"the limit is {self._tools.settings.max_episodes}")
            ref = self._next(body.task)
            await self._tools.caller.call(self._env, look_up, self._env, ref)
            await self._end("abandoned")
            await self._begin(ref, body.player)
            self._keys[body.key] = form
            if len(self._keys) > KEPT_KEYS:
                self._keys.popitem(last=False)
            self._reset = (body.key, self.current.first)
            return self.current.first

    async def step(self, episode: str, turn: int, action: Any, *, trace: bool = False, agent: bool = False) -> bytes:
        """Play a turn, or answer one again.

        Args:
            episode: Which episode the client means.
            turn: Which turn; the first is 1.
            action: Any JSON value.
            trace: Answer result and trace instead of the result.
            agent: The client holds the agent key of that episode, and may know of no other.

        Raises:
            ProblemError: ``action_too_large``, ``episode_conflict``, ``turn_*``, ``episode_ended``,
                ``environment_failed``.
        """
        said = spelled(action)
        if len(said) > self._tools.settings.max_action_bytes:
            raise ProblemError("action_too_large", f"the limit is {self._tools.settings.max_action_bytes} bytes")
        return await self._to_its_end(self._step_once(episode, turn, said, action, trace=trace, agent=agent))

    async def _step_once(self, episode: str, turn: int, said: bytes, action: Any, *, trace: bool, agent: bool) -> bytes:
        async with self._lock:
            if agent:
                self.must_be_agents(episode)
            self.must_be_open()
            self._must_play(episode)
            playing = self.current
            answer = playing.check(turn, said)
            if answer is None:
                answer = await self._play(playing, turn, said, action)
            if not trace:
                return answer
            seen = await self._tools.caller.call(self._env, playing.trace)
            return b'{"result":%b,"trace":%b}' % (answer, seen)

    async def status(self) -> bytes:
        """Return how things stand."""
        async with self._lock:
            self.must_be_open()
            return await self._status(open_=True)

    async def traces(self, start: int) -> bytes:
        """Return the traces of the current episode from a turn on.

        Raises:
            ProblemError: ``trace_off``.
        """
        if not self._traced:
            raise ProblemError("trace_off")
        async with self._lock:
            self.must_be_open()
            kept = self.current.traces[max(start - 1, 0) :]
            return b'{"episode":%b,"traces":[%b]}' % (dump(self.current.name), b",".join(kept))

    async def record(self, episode: str | None) -> bytes:
        """Return the record of an ended episode; the current one's where none is named.

        Raises:
            ProblemError: ``episode_running`` or ``episode_unknown``.
        """
        async with self._lock:
            playing = self._current
            if playing is not None and episode in (None, playing.name):
                if not playing.ended:
                    raise ProblemError("episode_running", f"{playing.name} is at turn {playing.turn}")
                return playing.record()
        name = episode if episode is not None else next(reversed(self.records), None)
        packed = None if name is None else self.records.get(name)
        if packed is None:
            raise ProblemError("episode_unknown", "its record is not, or no longer, kept")
        return unpack(packed)

    async def agent_view(self, episode: str) -> bytes:
        """Return what the holder of an agent key may see.

        Raises:
            ProblemError: ``closed`` where the key's episode is over and gone.
        """
        async with self._lock:
            self.must_be_agents(episode)
            playing, spec = self.current, self.world.spec
            return dump(
                {
                    "env": spec.id,
                    "episode": playing.name,
                    "task": playing.task,
                    "tools": spec.to_json()["tools"],
                    "accepts": list(spec.accepts),
                    "max_calls": spec.max_calls,
                    "turn": playing.turn,
                    "ended": playing.ended,
                    "last": None if playing.answer is None else Written(playing.answer),
                    "observation": Written(playing.observation),
                }
            )

    async def close(self, how: str, ending: Ending, now: float) -> bytes:
        """End everything; may be called twice.

        Args:
            how: ``closed`` or ``expired``.
            ending: What becomes of a running episode.
            now: The server's clock.

        Returns:
            How things stood at the end.
        """
        return await self._to_its_end(self._close_once(how, ending, now))

    async def _close_once(self, how: str, ending: Ending, now: float) -> bytes:
        async with self._lock:
            if self.farewell is None:
                await self._end(ending)
                self.farewell = await self._status(open_=False)
                self.over = (how, now)
                self._current = None
                try:
                    await self._tools.caller.call(self._env, self._env.close)
                except Exception as error:  # noqa: BLE001 - boundary: an environment may fail in any way
                    log.error("an environment failed when it was closed: %s", told(error))
            return self.farewell

    # ---- what others ask of it -------------------------------------------------------------------------------------

    @property
    def current(self) -> Episode:
        """The episode in the world.

        Raises:
            ProblemError: ``closed``, where there is none any more.
        """
        if self._current is None:
            raise ProblemError("closed")
        return self._current

    def ttl(self) -> dict[str, int]:
        """Return how long it lives."""
        return {"idle": self.life.idle, "absolute": self.life.absolute}

    def left(self, now: float) -> tuple[float, float]:
        """Return the seconds until it expires without, and in spite of, further calls."""
        return self.touched + self.life.idle - now, self.life.born + self.life.absolute - now

    def must_be_open(self) -> None:
        """Refuse what only an open session can do.

        Raises:
            ProblemError: ``closed`` or ``expired``; the detail names the record of the last episode.
        """
        if self.over is None:
            return
        last = next(reversed(self.records), None)
        where = "" if last is None else f"GET /v1/sessions/{{session}}/record?episode={last} has the last record"
        raise ProblemError(self.over[0], where)

    def must_be_agents(self, episode: str) -> None:
        """Refuse an agent whose episode is over and gone, without telling it of the next one.

        Raises:
            ProblemError: ``closed`` or ``expired``.
        """
        if self.over is not None or episode != self.current.name:
            code = "closed" if self.over is None else self.over[0]
            raise ProblemError(code, "the episode of this key is over", fix="ask for the key of another episode")

    @property
    def weight(self) -> int:
        """About how many bytes are kept of it."""
        records = sum(map(len, self.records.values()))
        if self.farewell is None:
            return records
        return records + SESSION_BYTES + len(self.farewell) + KEY_BYTES * len(self.agents)

    # ---- inside ----------------------------------------------------------------------------------------------------

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work that must not be left half done when whoever asked goes away.

        An inline world is never left in the middle of a call, so it needs no task of its own.
        """
        if self._inline:
            return await work
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(_looked_at)
        return await asyncio.shield(task)

    def _must_play(self, episode: str) -> None:
        if episode != self.current.name:
            raise ProblemError("episode_conflict", f"it plays {self.current.name}")

    def _next(self, task: TaskBody | str | None) -> TaskRef:
        ref = self.current.ref
        if task == "same":
            return ref
        return self.world.ref(task) if isinstance(task, TaskBody) else self.world.following(ref)

    async def _begin(self, ref: TaskRef, player: PlayerBody) -> None:
        tools = self._tools
        self._current = await tools.caller.call(
            self._env, lambda: begin(self._env, ref, player, tools.make_names, traced=self._traced)
        )
        self._begun += 1
        tools.register_agent(self.current.agent_key, self, self.current.name)

    async def _play(self, playing: Episode, turn: int, said: bytes, action: Any) -> bytes:
        try:
            result = await self._tools.caller.step(playing.recorded, action)
            return playing.played(turn, said, result)
        except Exception as error:
            raise playing.fail(turn, said, error) from error

    async def _end(self, ending: Ending) -> None:
        """End the current episode and keep its record."""
        playing, tools = self._current, self._tools
        if playing is None or playing.name in self.records:
            return
        await tools.caller.call(self._env, playing.finish, ending)
        await tools.caller.call(self._env, playing.known)
        self.records[playing.name] = packed = playing.pack()
        tools.kept_bytes += len(packed)
        if tools.is_full:
            tools.make_room()
        while len(self.records) > (1 if tools.is_full else tools.settings.kept_episodes):
            _, gone = self.records.popitem(last=False)
            tools.kept_bytes -= len(gone)

    async def _status(self, *, open_: bool) -> bytes:
        playing = self.current
        scenario, labels = None, None
        if playing.ended:
            scenario, labels = await self._tools.caller.call(self._env, playing.known)
        verdict = playing.verdict
        return dump(
            {
                "session": self.name,
                "env": self.world.spec.id,
                "open": open_,
                "episode": playing.name,
                "task": playing.task,
                "turn": playing.turn,
                "ending": playing.ending(),
                "verdict": None if verdict is None else verdict.to_json(),
                "scenario": scenario,
                "labels": labels,
                "episodes": self._recorded(playing),
                "last": Written(playing.answer or playing.first),
                "ttl": self.ttl(),
            }
        )

    def _recorded(self, playing: Episode) -> list[str]:
        names = list(self.records)
        return [*names, playing.name] if playing.ended and playing.name not in self.records else names


class Tools:
    """What the sessions of a server share.

    Args:
        settings: The limits.
        caller: Calls environments.
    """

    def __init__(self, settings: Settings, caller: Caller) -> None:
        self.settings = settings
        self.caller = caller
        self.names = Names()
        self.agents: dict[bytes, tuple[Session, str]] = {}
        """Session and episode of each agent key, by digest."""
        self.kept_bytes = 0
        """What records and past sessions take."""
        self.make_room: Callable[[], None] = lambda: None
        """Forgets closed sessions, the oldest first, as far as is needed."""

    @property
    def is_full(self) -> bool:
        """Whether more is kept than may be."""
        return self.kept_bytes > self.settings.retained_bytes

    def make_names(self) -> tuple[str, str]:
        """Return a new episode id and agent key."""
        return self.names.episode(), self.names.agent()

    def register_agent(self, key: str, session: Session, episode: str) -> None:
        """Let the holder of a key play an episode."""
        digest = self.names.lookup(key)
        self.agents[digest] = (session, episode)
        session.agents.append(digest)
        if len(session.agents) > self.settings.kept_episodes:
            self.agents.pop(session.agents.pop(0), None)


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Take note of how a task ended, in case that nobody waits for it any more."""
    if not task.cancelled():
        task.exception()
