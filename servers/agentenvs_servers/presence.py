"""The world of a session: in memory only as long as the journal agrees.

What a session does, it does through :meth:`Presence._within`: one request at a time, in a world that is made again
where it was given up, and tried again where another worker was faster. A session without a journal has its world from
its beginning to its end.
"""

from __future__ import annotations

import json
import logging
import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from agentenvs.core.environment import Environment
from agentenvs_servers.episodes import Episode
from agentenvs_servers.failures import told
from agentenvs_servers.gate import Gate
from agentenvs_servers.journal.rows import SHORT, Ended, Loaded
from agentenvs_servers.journal.writing import JournalDown
from agentenvs_servers.keeping import Keeper, Stale, play_again, rebuild, unavailable, unpacked
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.tools import Tools
from agentenvs_servers.worlds import World

TOUCH_SLACK = 10.0
"""How much later than by the journal a session of several workers expires: touches are written seldom."""

MOST_TRIES = 5
"""How often a request is tried while other workers play its session."""

LOST = frozenset({"diverged", "journal_damaged", "session_lost", "version_changed"})
"""Codes of sessions whose world cannot be made again."""

_OLD = frozenset(
    {
        "closed",
        "episode_conflict",
        "episode_ended",
        "episodes_spent",
        "key_conflict",
        "split_exhausted",
        "task_unknown",
        "turn_ahead",
        "turn_conflict",
        "turn_past",
    }
)
"""Codes of refusals that another worker may have made untrue meanwhile."""

T = TypeVar("T")

log = logging.getLogger("agentenvs.server")


class Life(NamedTuple):
    """When a session ends by itself; seconds of the server's clock."""

    born: float
    idle: int
    absolute: int


class Presence(ABC):
    """The world of a session, in memory and in the journal.

    Args:
        name: The session's secret name.
        world: What it plays.
        env: The world's environment, of this session alone; None where it is to be made from the journal.
        life: How long.
        traced: Whether to keep the traces of every turn.
        tools: What the sessions of a server share.
        keeper: The session's side of the journal; None where it lives in memory alone.
    """

    def __init__(
        self,
        name: str,
        world: World,
        env: Environment | None,
        life: Life,
        *,
        traced: bool,
        tools: Tools,
        keeper: Keeper | None = None,
    ) -> None:
        self.name = name
        self.world = world
        self.life = life
        self.touched = life.born
        """From when on its idle time counts; of several workers' sessions a little later than they can know."""
        self.answered = -math.inf
        """When this worker last answered a request of it."""
        self.over: tuple[str, float] | None = None
        """``closed`` or ``expired``, and when."""
        self.busy = 0
        """Requests that run or wait."""
        self.farewell: bytes | None = None
        """The answer to its closing."""
        self.records: OrderedDict[str, bytes | None] = OrderedDict()
        """Packed records of past episodes, by episode id; None for those that the journal has."""
        self.agents: list[bytes] = []
        """Digests of the agent keys of its episodes."""
        self.keeper = keeper
        self.tenant = ""
        """Name of the token that made it."""
        self.drops = False
        """Whether its records are forgotten with its end."""
        self.sealed = False
        """Whether its one scenario is sealed."""
        self._env = env
        self._traced = traced
        self._tools = tools
        self._gate = Gate()
        self._current: Episode | None = None
        self._begun = 0
        self._keys: OrderedDict[str, bytes] = OrderedDict()
        self._reset: tuple[str, bytes] | None = None
        """Key and answer of the last reset."""
        self._stale = env is None
        """Whether the world must be made again before anything else."""
        self._lost: ProblemError | None = None
        """Why the world cannot be made again."""

    async def leave_world(self) -> None:
        """Give up the world when what runs has ended; the server goes away."""
        async with self._gate:
            await self.drop_world()

    async def drop_world(self) -> None:
        """Give up the world in memory; a session that is kept makes it again when it is asked."""
        env, self._env, self._current, self._stale = self._env, None, None, True
        if env is None:
            return
        try:
            await self._tools.caller.call(env, env.close)
        except Exception as error:  # noqa: BLE001 - boundary: an environment may fail in any way
            log.error("an environment failed when it was closed: %s", told(error))

    @property
    def env(self) -> Environment:
        """The world.

        Raises:
            ProblemError: ``closed``, where there is none any more.
        """
        if self._env is None:
            raise ProblemError("closed")
        return self._env

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

    def is_due(self, now: float) -> bool:
        """Return whether its time is up."""
        life = self.life
        return self.touched + life.idle <= now or life.born + life.absolute <= now

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

    @property
    def is_spare(self) -> bool:
        """Whether its world can be given up and made again."""
        return self.keeper is not None and not self.busy and self.world.spec.capabilities.recoverable

    async def _within(self, do: Callable[[], Awaitable[T]], *, fresh: bool = False) -> T:
        """Do something when it is its turn, in a world that is as the journal says.

        Args:
            do: What to do; may be called again in a world made again.
            fresh: Whether to ask the journal first what other workers did.
        """
        async with self._gate:
            for _ in range(MOST_TRIES):
                await self._ready()
                if fresh:
                    await self._catch_up()
                try:
                    return await do()
                except Stale:
                    self._stale = True
                except ProblemError as problem:
                    if fresh or not self._may_be_old(problem):
                        raise
                    fresh = True
            raise ProblemError("journal_unavailable", "too many workers play this session at once")

    def _may_be_old(self, problem: ProblemError) -> bool:
        """Return whether a refusal may come from what was so before another worker was asked."""
        return self.keeper is not None and self.keeper.journal.shared and problem.code in _OLD

    async def _written(self, work: Awaitable[bool]) -> None:
        """Wait for the journal.

        Raises:
            Stale: It says otherwise than this world.
            ProblemError: ``journal_unavailable``.
        """
        try:
            if not await work:
                raise Stale
        except JournalDown as error:
            self._stale = True
            raise unavailable() from error
        except BaseException:  # the world in memory has gone on, and the journal has not
            self._stale = True
            raise

    async def _ready(self) -> None:
        """Make the world again, where it was given up.

        Raises:
            ProblemError: ``session_unknown``, ``journal_unavailable``, or why that cannot be.
        """
        if self.keeper is None or not self._stale or self.over is not None:
            return
        if self._lost is not None:
            raise self._lost
        await self.drop_world()
        try:
            await self._fetch(self.keeper)
        except ProblemError as problem:
            if problem.code in LOST:
                self._lost = problem
                tell_lost(self._tools, self.keeper.id, problem)
                await self.drop_world()
            raise

    async def _fetch(self, keeper: Keeper) -> None:
        loaded = await keeper.load()
        if loaded is None:
            raise ProblemError("session_unknown", "it is forgotten since its retention time is over")
        self.recall(loaded)
        if loaded.state == "open":
            await self._make_again(loaded, keeper)

    async def _make_again(self, loaded: Loaded, keeper: Keeper) -> None:
        spec, caller = self.world.spec, self._tools.caller
        if (loaded.session.release, loaded.session.spec) != (spec.release, spec.digest):
            raise ProblemError("version_changed", f"it was begun under release {loaded.session.release} of {spec.id}")
        await keeper.take(spec)
        if not spec.capabilities.replayable:
            raise ProblemError("session_lost", f"{spec.id} cannot be replayed")
        self._env = env = await caller.call(self.world, self.world.make, _options(loaded))
        began = perf_counter()
        self._current = await rebuild(env, loaded, caller, sealed=self.sealed)
        keeper.spent = perf_counter() - began
        self._tools.metrics.rebuilds.observe(keeper.spent)
        self._stale = False
        self._register(self._current)

    def recall(self, loaded: Loaded) -> None:
        """Take what the journal says of the session.

        Raises:
            ProblemError: ``journal_damaged``.
        """
        clock = self._tools.clock() - loaded.now
        self.life = Life(clock + loaded.born, loaded.session.idle, loaded.session.absolute)
        slack = 0.0 if self.keeper is None or not self.keeper.journal.shared else TOUCH_SLACK
        self.touched = max(self.touched, clock + loaded.touched + slack)
        self._begun = loaded.begun
        self.tenant = loaded.session.tenant
        split = self.world.splits.get(loaded.episode.split)
        self.sealed = split is not None and split.sealed
        self.records = OrderedDict.fromkeys(loaded.recorded)
        if loaded.reset_key is not None and loaded.reset_form is not None:
            self._keys[loaded.reset_key] = loaded.reset_form
            self._reset = (loaded.reset_key, unpacked(loaded.episode.opening, f"the row of {loaded.episode.id}"))
        if loaded.state != "open":
            self.over = (loaded.state, clock + (loaded.over or 0.0))
            self.farewell = unpacked(loaded.farewell, "the answer to its closing") if loaded.farewell else b""

    async def give_up(self, how: str, now: float) -> None:
        """Close a session whose world cannot be made again: its episode is aborted, without a record."""
        if self.keeper is None:
            return
        async with self._gate:
            if await self._given_up(self.keeper, how):
                self._tools.metrics.episodes.add(self.world.spec.id, "aborted")
                self.over = (how, now)

    async def _given_up(self, keeper: Keeper, how: str) -> bool:
        try:
            loaded = await keeper.load()
        except ProblemError as problem:
            if problem.code != "journal_damaged":
                raise
            return await keeper.abandon()
        if loaded is None or loaded.state != "open":
            return False
        turns = loaded.turns[-1].turn if loaded.turns else 0 if loaded.saved is None else loaded.saved.turn
        await keeper.over(Ended(loaded.episode.id, turns, "aborted", None), how, b"")
        return True

    async def _catch_up(self) -> None:
        """Take over what other workers did to the session."""
        keeper, playing = self.keeper, self._current
        if keeper is None or not keeper.journal.shared or playing is None or self.over is not None:
            return
        head = await keeper.head()
        if head != ("open", playing.name):
            self._stale = True
            await self._ready()
            return
        turns = await keeper.turns_after(playing.name, playing.turn)
        try:
            keeper.spent += await play_again(playing, turns, self._tools.caller)
        except ProblemError as problem:
            self._stale, self._lost = True, problem
            tell_lost(self._tools, keeper.id, problem)
            raise

    @abstractmethod
    def _register(self, episode: Episode) -> None:
        """Let the holder of an episode's agent key find the session."""


def tell_lost(tools: Tools, session: bytes, problem: ProblemError) -> None:
    """Say in log and metrics that a session cannot be gone on with; ``agentenvs journal ls`` names it so too."""
    tools.metrics.lost.add(problem.code)
    log.error("session %s is lost: %s: %s", session.hex()[:SHORT], problem.code, problem.detail)


def _options(loaded: Loaded) -> dict[str, Any]:
    try:
        options = json.loads(loaded.session.options)
    except ValueError as error:
        raise ProblemError("journal_damaged", "its options are damaged") from error
    if not isinstance(options, dict):
        raise ProblemError("journal_damaged", "its options are damaged")
    return options
