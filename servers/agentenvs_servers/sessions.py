"""A session: one world that plays one episode after another for whoever holds its name.

Requests of a session run one at a time, in the order in which they came. What changes the world has a name of its own
(the turn, the key of a reset), so that a request asked twice is done once; and once begun it comes to its end, whether
or not its client still waits. The world of a session is closed with it; the records of its episodes stay.

A session that is kept in the journal has its world in memory only as long as the journal agrees: see
:mod:`~agentenvs_servers.keeping`. Everything below goes through :meth:`Session._within`, which makes the world again
where that is needed, and tries again where another worker was faster.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

from agentenvs.core.record import redacted
from agentenvs.core.task import TaskRef
from agentenvs.core.verdict import Ending
from agentenvs_servers.bodies import loads
from agentenvs_servers.dumping import Written, dump, join, spelled
from agentenvs_servers.episodes import Episode, begin
from agentenvs_servers.journal.rows import Ended, EpisodeRow, SessionRow, lookup
from agentenvs_servers.journal.writing import Handed, JournalDown
from agentenvs_servers.keeping import episode_row, must_fit, unavailable, unpacked
from agentenvs_servers.presence import Presence
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.wire import PlayerBody, ResetBody, TaskBody
from agentenvs_servers.worlds import contained, look_up

KEPT_KEYS = 1_000
"""Keys of past resets that a session remembers."""

SESSION_BYTES = 4_096
"""About what a session takes besides its records, once it is over."""

KEY_BYTES = 256
"""About what an agent key takes."""

T = TypeVar("T")

Answered: TypeAlias = bytes | ProblemError
"""An answer to a turn: its body, or the problem that its environment failed."""

log = logging.getLogger("agentenvs.server")


class Session(Presence):
    """An open or closed session; see :class:`~agentenvs_servers.hall.Hall`, which makes them."""

    # ---- requests --------------------------------------------------------------------------------------------------

    async def begin(self, ref: TaskRef, player: PlayerBody) -> bytes:
        """Play the first episode and return the answer to the create.

        Raises:
            ProblemError: ``task_unknown`` or ``environment_failed``.
        """
        await self._look_up(ref)
        self._take(await self._begin(ref, player))
        return self.opening(self.current.first)

    def begin_with(self, episode: Episode) -> bytes:
        """Play an episode that begins somewhere else than at a reset, and return the answer to its making."""
        self._take(episode)
        return self.opening(episode.first)

    async def between_turns(self, do: Callable[[Episode], Awaitable[T]]) -> T:
        """Do something with the current episode when it is its turn.

        Args:
            do: What to do; it changes nothing, and may be called again in a world made again.

        Raises:
            ProblemError: ``closed`` or ``expired``; or what it raises.
        """

        async def work() -> T:
            self.must_be_open()
            return await do(self.current)

        return await self._to_its_end(self._within(work, fresh=True))

    @property
    def traced(self) -> bool:
        """Whether traces are kept."""
        return self._traced

    def opening(self, first: bytes) -> bytes:
        """Return the answer to the create, from that to the first reset."""
        return join(first, session=self.name, env=self.world.spec.id, ttl=self.ttl())

    async def reset(self, body: ResetBody) -> bytes:
        """Play another episode.

        Raises:
            ProblemError: ``key_conflict``, ``episode_conflict``, ``episodes_spent``, ``split_exhausted``,
                ``task_unknown``, ``sealed_closed``, ``environment_failed``; all but the last leave the running episode
                as it is, and that too where it is kept in the journal.
        """
        return await self._to_its_end(self._reset_once(body))

    async def _reset_once(self, body: ResetBody) -> bytes:
        return await self._within(lambda: self._reset_now(body))

    async def _reset_now(self, body: ResetBody) -> bytes:
        self.must_be_open()
        if self.sealed:
            raise ProblemError("sealed_rule", "it is played once; make another session for another scenario")
        form = hashlib.sha256(spelled(body.model_dump())).digest()
        known = self._keys.get(body.key)
        if known is not None and known != form:
            raise ProblemError("key_conflict", "it was used for another reset")
        if known is not None and self._reset is not None and self._reset[0] == body.key:
            return self._reset[1]
        self._must_play(body.ends)
        if self._begun >= self._tools.settings.max_episodes:
            raise ProblemError("episodes_spent", f"the limit is {self._tools.settings.max_episodes}")
        ref = self._next(body.task)
        await self._look_up(ref)
        ended = await self._end("abandoned")
        try:
            following = await self._begin(ref, body.player)
        except ProblemError:
            # The world has left its episode, and the journal has not: the journal is right.
            self._stale = self.keeper is not None
            raise
        if self.keeper is not None:
            await self._written(self.keeper.begun(ended, following, self._begun + 1, body.key, form))
        self._put_by(ended)
        self._take(following)
        self._keys[body.key] = form
        if len(self._keys) > KEPT_KEYS:
            self._keys.popitem(last=False)
        self._reset = (body.key, following.first)
        return following.first

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
        if trace and self.sealed:
            raise ProblemError("sealed_rule", "its turns are not traced")
        said = self._said(action)
        return await self._to_its_end(self._step_once(episode, turn, said, action, trace=trace, agent=agent))

    async def _step_once(self, episode: str, turn: int, said: bytes, action: Any, *, trace: bool, agent: bool) -> bytes:
        async def play() -> bytes:
            playing = self._ready_for(episode, agent=agent)
            answer = playing.check(turn, said)
            if answer is None:
                answer = await self._play(playing, turn, said, action)
            return answer if not trace else await self._traced_answer(playing, answer)

        return await self._within(play)

    async def play_next(self, action: Any, *, agent: str | None = None) -> bytes:
        """Play whichever turn is next, for dialects whose requests have no number and so are never repeated.

        Args:
            action: Any JSON value.
            agent: The one episode that the client may play, where it holds an agent key.

        Raises:
            ProblemError: As :meth:`step`.
        """
        said = self._said(action)

        async def play() -> bytes:
            playing = self._ready_for(self.current.name if agent is None else agent, agent=agent is not None)
            turn = playing.turn + 1
            return playing.check(turn, said) or await self._play(playing, turn, said, action)

        alone = self.keeper is None or not self.keeper.journal.shared
        if alone and (playing := self._current) is not None and self.over is None and agent in (None, playing.name):
            turn = playing.turn + 1
            # Nothing is awaited since its number was read, so nobody else can have taken it.
            if (started := self.start_step(playing.name, turn, action)) is not None:
                return await self.settled(*started, playing.name, turn, action)
        return await self._to_its_end(self._within(play, fresh=True))

    async def play(self, episode: str, turn: int, action: Any, *, trace: bool = False, agent: bool = False) -> bytes:
        """Play a turn, at once where that can be; see :meth:`step`."""
        started = self.start_step(episode, turn, action, trace=trace, agent=agent)
        if started is None:
            return await self.step(episode, turn, action, trace=trace, agent=agent)
        return await self.settled(*started, episode, turn, action, agent=agent)

    def start_step(
        self, episode: str, turn: int, action: Any, *, trace: bool = False, agent: bool = False
    ) -> tuple[Answered, Handed | None] | None:
        """Play a turn of an inline world at once, up to the journal; see :meth:`step`.

        Returns:
            The answer, and what to wait for before it may leave (see :meth:`settled`); None where it cannot be played
            at once, and :meth:`step` must be awaited.

        Raises:
            ProblemError: As :meth:`step`.
        """
        if trace or self._stale or not self.world.inline or not self._gate.try_enter():
            return None
        pending: Handed | None = None
        try:
            said = self._said(action)
            playing = self._ready_for(episode, agent=agent)
            answer = playing.check(turn, said)
            if answer is not None:
                return answer, None
            began = perf_counter()
            played = _play_inline(playing, turn, said, action)
            self.world.turns += 1
            if (keeper := self.keeper) is not None:
                keeper.spent += perf_counter() - began
                pending = keeper.turn(playing, self._committed)
            return played, pending
        except ProblemError as problem:
            if self._may_be_old(problem):
                return None
            raise
        finally:
            if pending is None:
                self._gate.leave()

    async def settled(
        self,
        answer: Answered,
        pending: Handed | None,
        episode: str,
        turn: int,
        action: Any,
        *,
        agent: bool = False,
    ) -> bytes:
        """Return the answer of :meth:`start_step` once it may leave.

        Raises:
            ProblemError: As :meth:`step`.
        """
        try:
            if pending is not None and not await pending:
                return await self.step(episode, turn, action, agent=agent)
        except JournalDown as error:
            raise unavailable() from error
        if isinstance(answer, ProblemError):
            raise answer
        return answer

    async def status(self) -> bytes:
        """Return how things stand."""

        async def look() -> bytes:
            self.must_be_open()
            return await self._status(open_=True)

        return await self._within(look, fresh=True)

    async def traces(self, start: int) -> bytes:
        """Return the traces of the current episode from a turn on.

        Raises:
            ProblemError: ``trace_off``.
        """
        if not self._traced:
            raise ProblemError("trace_off")

        async def look() -> bytes:
            self.must_be_open()
            kept = self.current.traces[max(start - 1, 0) :]
            return b'{"episode":%b,"traces":[%b]}' % (dump(self.current.name), b",".join(kept))

        return await self._within(look, fresh=True)

    async def record(self, episode: str | None) -> bytes:
        """Return the record of an ended episode; the current one's where none is named.

        Raises:
            ProblemError: ``episode_running``, ``episode_unknown`` or ``journal_damaged``.
        """

        async def look() -> bytes | None:
            playing = self._current
            if playing is None or episode not in (None, playing.name):
                return None
            if not playing.ended:
                raise ProblemError("episode_running", f"{playing.name} is at turn {playing.turn}")
            return self._told(playing.record())

        try:
            found = await self._within(look, fresh=True)
        except ProblemError as problem:
            if problem is not self._lost:
                raise
            found = None  # a world that is lost has past episodes all the same
        if found is not None:
            return found
        name = episode if episode is not None else next(reversed(self.records), None)
        packed = None if name is None else self.records.get(name)
        if packed is None and name is not None and self.keeper is not None:
            packed = await self.keeper.record(name)
        if packed is None:
            raise ProblemError("episode_unknown", "its record is not, or no longer, kept")
        return self._told(unpacked(packed, f"the record of {name}"))

    async def agent_view(self, episode: str) -> bytes:
        """Return what the holder of an agent key may see.

        Raises:
            ProblemError: ``closed`` where the key's episode is over and gone.
        """

        async def look() -> bytes:
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

        return await self._within(look, fresh=True)

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
        async def close() -> bytes:
            if self.farewell is not None:
                return self.farewell
            ended = await self._end(ending)
            farewell = await self._status(open_=False)
            if self.keeper is not None:
                await self._written(self.keeper.over(ended, how, farewell))
            self._put_by(ended)
            if self.drops:
                self._tools.kept_bytes -= self.record_bytes
                self.records.clear()
            self.farewell, self.over = farewell, (how, now)
            await self.drop_world()
            return farewell

        return await self._within(close)

    # ---- what others ask of it -------------------------------------------------------------------------------------

    def must_be_agents(self, episode: str) -> None:
        """Refuse an agent whose episode is over and gone, without telling it of the next one.

        Raises:
            ProblemError: ``closed`` or ``expired``.
        """
        if self.over is not None or episode != self.current.name:
            code = "closed" if self.over is None else self.over[0]
            raise ProblemError(code, "the episode of this key is over", fix="ask for the key of another episode")

    def rows(self, key: str, place: int) -> tuple[SessionRow, EpisodeRow]:
        """Return the session and its first episode as the journal keeps them.

        Args:
            key: Of the create.
            place: In the answer to the create.
        """
        spec, playing = self.world.spec, self.current
        row = SessionRow(
            id=lookup(self.name),
            name=self.name,
            tenant=self.tenant,
            create_key=key,
            place=place,
            env=spec.id,
            release=spec.release,
            spec=spec.digest,
            options=json.dumps(self.env.public_options()),
            traced=self._traced,
            strict=self.keeper is not None and self.keeper.strict,
            idle=self.life.idle,
            absolute=self.life.absolute,
            episode=playing.name,
            owner=self._tools.names.route,
        )
        return row, episode_row(playing, row.id, 1)

    @property
    def record_bytes(self) -> int:
        """How many bytes of records are kept in memory."""
        return sum(len(record) for record in self.records.values() if record is not None)

    @property
    def weight(self) -> int:
        """About how many bytes are kept of it."""
        records = self.record_bytes
        if self.farewell is None:
            return records
        return records + SESSION_BYTES + len(self.farewell) + KEY_BYTES * len(self.agents)

    # ---- inside ----------------------------------------------------------------------------------------------------

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work that must not be left half done when whoever asked goes away.

        An inline world without a journal is never left in the middle of a call, so it needs no task of its own.
        """
        if self.world.inline and self.keeper is None:
            return await work
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(_looked_at)
        return await asyncio.shield(task)

    async def _look_up(self, ref: TaskRef) -> None:
        """Refuse a scenario that is not there, or cannot be kept."""
        if self.keeper is not None:
            must_fit(ref)
        await self._tools.caller.call(self.env, look_up, self.env, ref)

    def _must_play(self, episode: str) -> None:
        if episode != self.current.name:
            raise ProblemError("episode_conflict", f"it plays {self.current.name}")

    def _next(self, task: TaskBody | str | None) -> TaskRef:
        ref = self.current.ref
        if task == "same":
            return ref
        return self.world.ref(task) if isinstance(task, TaskBody) else self.world.following(ref)

    async def _begin(self, ref: TaskRef, player: PlayerBody) -> Episode:
        env, tools = self.env, self._tools
        return await tools.caller.call(
            env,
            lambda: begin(env, ref, player, tools.make_names, traced=self._traced, sealed=self.sealed),
        )

    def _take(self, episode: Episode) -> None:
        """Go on with an episode."""
        self._current = episode
        self._begun += 1
        self._register(episode)

    async def _end(self, ending: Ending) -> Ended:
        """End the current episode, and return how, with its record."""
        playing, tools = self.current, self._tools
        await tools.caller.call(self.env, playing.finish, ending)
        await tools.caller.call(self.env, playing.known)
        return Ended(playing.name, playing.turn, playing.ending() or ending, playing.pack())

    def _put_by(self, ended: Ended) -> None:
        """Keep the record of an episode that is over."""
        tools = self._tools
        tools.metrics.episodes.add(self.world.spec.id, ended.ending)
        if self.keeper is not None:
            self.records[ended.id] = None
        elif ended.record is not None:
            self.records[ended.id] = ended.record
            tools.kept_bytes += len(ended.record)
        if tools.is_full:
            tools.make_room()
        while len(self.records) > (1 if tools.is_full else tools.settings.kept_episodes):
            _, gone = self.records.popitem(last=False)
            tools.kept_bytes -= len(gone or b"")

    def _told(self, record: bytes) -> bytes:
        return redacted(record) if self.sealed else record

    # ---- turns -----------------------------------------------------------------------------------------------------

    def _said(self, action: Any) -> bytes:
        said = spelled(action)
        if len(said) > self._tools.settings.max_action_bytes:
            raise ProblemError("action_too_large", f"the limit is {self._tools.settings.max_action_bytes} bytes")
        return said

    def _ready_for(self, episode: str, *, agent: bool) -> Episode:
        playing = self._current
        if playing is not None and playing.name == episode and self.over is None:
            return playing
        if agent:
            self.must_be_agents(episode)
        self.must_be_open()
        self._must_play(episode)
        return self.current

    async def _play(self, playing: Episode, turn: int, said: bytes, action: Any) -> bytes:
        began = perf_counter()
        answer: Answered
        if self.world.inline:
            answer = _play_inline(playing, turn, said, action)
        else:
            answer = await self._play_elsewhere(playing, turn, said, action)
        self.world.turns += 1
        if self.keeper is not None:
            self.keeper.spent += perf_counter() - began
            await self._written(self.keeper.turn(playing))
            self.keeper.checkpoint(playing)
        if isinstance(answer, ProblemError):
            raise answer
        return answer

    async def _play_elsewhere(self, playing: Episode, turn: int, said: bytes, action: Any) -> Answered:
        try:
            result = await self._tools.caller.step(playing.recorded, same(action, said))
            return playing.played(turn, said, result)
        except Exception as error:  # noqa: BLE001 - boundary: an environment may fail in any way
            return playing.fail(turn, said, error)

    def _committed(self, written: bool) -> None:
        """Let the next one in when the journal has, or has not, taken the last turn."""
        if not written:
            self._stale = True
        elif self.keeper is not None and self._current is not None:
            self.keeper.checkpoint(self._current)
        self._gate.leave()

    async def _traced_answer(self, playing: Episode, answer: bytes) -> bytes:
        seen = await self._tools.caller.call(self.env, playing.trace)
        return b'{"result":%b,"trace":%b}' % (answer, seen)

    async def _status(self, *, open_: bool) -> bytes:
        playing = self.current
        scenario, labels = None, None
        if playing.ended:
            scenario, labels = await self._tools.caller.call(self.env, playing.known)
        return dump(
            {
                "session": self.name,
                "env": self.world.spec.id,
                "open": open_,
                "episode": playing.name,
                "task": playing.task,
                "turn": playing.turn,
                "ending": playing.ending(),
                "verdict": playing.told_verdict(),
                "scenario": scenario,
                "labels": labels,
                "episodes": self._recorded(playing) if open_ or not self.drops else [],
                "last": Written(playing.answer or playing.first),
                "ttl": self.ttl(),
            }
        )

    def _recorded(self, playing: Episode) -> list[str]:
        names = list(self.records)
        return [*names, playing.name] if playing.ended and playing.name not in self.records else names

    def _register(self, episode: Episode) -> None:
        self._tools.register_agent(episode.agent_key, self, episode.name)


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Take note of how a task ended, in case that nobody waits for it any more."""
    if not task.cancelled():
        task.exception()


def _play_inline(playing: Episode, turn: int, said: bytes, action: Any) -> Answered:
    try:
        return playing.played(turn, said, contained(playing.recorded.step, same(action, said)))
    except Exception as error:  # noqa: BLE001 - boundary: an environment may fail in any way
        return playing.fail(turn, said, error)


def same(action: Any, said: bytes) -> Any:
    """Return an action as it will be played again: with its keys in the order in which it is kept."""
    return action if isinstance(action, str) else loads(said)
