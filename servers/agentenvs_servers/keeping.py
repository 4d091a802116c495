"""How sessions are kept in the journal, and how a world is made again from there.

A session that is kept writes each turn, reset and closing before it is answered. What the journal refuses was done by
another worker meanwhile; what the journal could not take counts as not done. In both cases the world in memory is given
up and made again: from a checkpoint where there is one, by playing the turns since. A turn played again must give the
answer it gave before, to the byte; where it does not, nobody is shown a guess.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import secrets
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from sqlalchemy import Connection

from agentenvs.core.canon import canonical_bytes
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.record import Recorded, effects_of, effects_to_json
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import Effect
from agentenvs_servers import bodies
from agentenvs_servers.episodes import Episode
from agentenvs_servers.failures import told
from agentenvs_servers.journal import operations
from agentenvs_servers.journal.opening import Opened
from agentenvs_servers.journal.rows import (
    Ended,
    EpisodeRow,
    Head,
    Loaded,
    PlayedTurn,
    Saved,
    answer_digest,
    lookup,
)
from agentenvs_servers.journal.soundness import DamagedError
from agentenvs_servers.journal.stats import Stats
from agentenvs_servers.journal.writing import Handed, JournalDown, Writer
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.wire import PlayerBody
from agentenvs_servers.worlds import Caller

T = TypeVar("T")

log = logging.getLogger("agentenvs.server")

CHECKPOINT_SECONDS = 0.5
"""What the turns since the last checkpoint may take to be played again, in seconds of a processor."""

BREATH_SECONDS = 0.005
"""How long turns are played again before others are let in between."""


class Stale(Exception):
    """The journal says otherwise than the world in memory: another worker was asked meanwhile."""


class Journal:
    """A worker's side of the journal.

    Args:
        opened: The journal.
        route: The worker's routing token.
        shared: Whether other workers write to it too.
    """

    def __init__(self, opened: Opened, route: str, *, shared: bool) -> None:
        self.shared = shared
        self.route = route
        self.worker = secrets.randbits(62)
        self._opened = opened
        self._writer: Writer | None = None
        self.stats = Stats()

    @property
    def writer(self) -> Writer:
        """The writer; started when it is first used, since it belongs to an event loop."""
        if self._writer is None:
            self._writer = Writer(self._opened, asyncio.get_running_loop(), self.stats)
        return self._writer

    @property
    def is_there(self) -> bool:
        """Whether what is written to it will be found again."""
        return self._opened.is_there

    @property
    def waiting(self) -> int:
        """How many requests wait to be written, about."""
        return 0 if self._writer is None else self._writer.waiting

    async def do(self, operation: Callable[..., T], *arguments: Any, strict: bool = False) -> T:
        """Return what an operation does in a transaction of its group.

        Raises:
            ProblemError: ``journal_unavailable``, ``journal_damaged``; or what the operation raises.
        """
        return await self._run(lambda connection: operation(connection, *arguments), strict)

    async def do_now(self, operation: Callable[..., T], *arguments: Any, strict: bool = False) -> T:
        """Like :meth:`do`, with the journal's clock as a last argument."""
        now = self._opened.now
        return await self._run(lambda connection: operation(connection, *arguments, now(connection)), strict)

    async def _run(self, work: Callable[[Connection], T], strict: bool) -> T:
        try:
            return await self.writer.run(work, strict=strict)
        except JournalDown as error:
            raise unavailable() from error
        except DamagedError as error:
            raise ProblemError("journal_damaged", str(error)) from error

    async def close(self) -> None:
        """Commit what is waiting, and close."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.flush()
            await asyncio.to_thread(writer.close)
        await asyncio.to_thread(self._opened.engine.dispose)


def unavailable() -> ProblemError:
    """Return what is answered where the journal cannot be written or read."""
    return ProblemError("journal_unavailable", "nothing was done", headers={"Retry-After": "1"})


class Keeper:
    """A session's side of the journal.

    Args:
        journal: The worker's.
        name: The session's secret name.
        strict: Whether its turns are forced to disk.
    """

    __slots__ = ("id", "journal", "spent", "strict")

    def __init__(self, journal: Journal, name: str, *, strict: bool) -> None:
        self.journal = journal
        self.id = lookup(name)
        self.strict = strict
        self.spent = 0.0
        """Seconds that the turns since the last checkpoint took."""

    def turn(self, playing: Episode, then: Callable[[bool], None] | None = None) -> Handed:
        """Write the last turn of an episode; the result says whether it is in."""
        effects, failed = playing.env.effects, playing.failure
        row = (
            playing.name,
            playing.turn,
            playing.said or b"null",
            digest_of(playing),
            pack_effects(effects) if effects and failed is None else None,
            failed,
            self.journal.worker,
        )
        return self.journal.writer.turn(row, strict=self.strict, then=then)

    def checkpoint(self, playing: Episode) -> None:
        """Save the world where playing it again would take too long; after its last turn was written."""
        if self.spent < CHECKPOINT_SECONDS or not playing.env.spec.capabilities.snapshot or playing.ended:
            return
        self.spent = 0.0
        try:
            saved = Saved(playing.turn, pack_world(playing))
        except Exception as error:  # noqa: BLE001 - boundary: an environment may fail in any way
            log.error("%s cannot be saved at turn %d: %s", playing.name, playing.turn, told(error))
            return
        done = self.journal.writer.run(lambda connection: operations.keep_checkpoint(connection, playing.name, saved))
        done.add_done_callback(lambda future: future.exception())  # one that is not kept costs time, nothing else

    async def begun(self, ended: Ended, episode: Episode, n: int, key: str, form: bytes) -> bool:
        """Write that an episode gave way to another; return whether the session stood as was thought."""
        row = episode_row(episode, self.id, n)
        return await self.journal.do_now(operations.begin_episode, ended, row, key, form, strict=self.strict)

    async def over(self, ended: Ended, how: str, farewell: bytes) -> bool:
        """Write that the session is over; return whether it stood as was thought."""
        return await self.journal.do_now(
            operations.end_session, self.id, ended, how, zlib.compress(farewell, 1), strict=self.strict
        )

    async def abandon(self) -> bool:
        """Write that a session expired whose rows make no sense."""
        return await self.journal.do_now(operations.abandon, self.id)

    async def take(self, spec: EnvSpec) -> None:
        """Make sure that no other worker has a world that cannot be made again from the journal.

        Raises:
            ProblemError: ``elsewhere`` while it may live.
        """
        if not self.journal.shared or spec.capabilities.recoverable:
            return
        if not await self.journal.do_now(operations.take, self.id, self.journal.route):
            raise ProblemError("elsewhere", "its worker may still be there", headers={"Retry-After": "1"})

    async def load(self) -> Loaded | None:
        """Return all that is needed to go on."""
        return await self.journal.do_now(operations.load, self.id)

    async def head(self) -> Head | None:
        """Return how the session stands, in short."""
        return await self.journal.do(operations.head, self.id)

    async def turns_after(self, episode: str, turn: int) -> list[PlayedTurn]:
        """Return the turns of an episode after one."""
        return await self.journal.do(operations.turns_after, episode, turn)

    async def record(self, episode: str) -> bytes | None:
        """Return the packed record of a past episode."""
        if "\0" in episode:  # no episode has such a name, and PostgreSQL cannot look for it
            return None
        return await self.journal.do(operations.record, self.id, episode)


# ---- rows ------------------------------------------------------------------------------------------------------------


def episode_row(episode: Episode, session: bytes, n: int) -> EpisodeRow:
    """Return an episode that begins, as a row."""
    ref = episode.ref
    return EpisodeRow(
        id=episode.name,
        session=session,
        n=n,
        agent=lookup(episode.agent_key),
        split=ref.split,
        number=ref.index,
        player=episode.player.model_dump_json(),
        opening=zlib.compress(episode.first, 1),
        effects=pack_effects(episode.env.effects) if episode.env.effects else None,
    )


def must_fit(ref: TaskRef) -> None:
    """Refuse a scenario that the journal cannot name.

    Raises:
        ProblemError: ``task_unknown``.
    """
    if not -(2**63) <= ref.index < 2**63:
        fix = "give a smaller one, or ask for durability: memory where the server keeps sessions so"
        raise ProblemError("task_unknown", "the journal keeps seeds of 64 bits", fix=fix)


def digest_of(playing: Episode) -> bytes:
    """Return the digest of the last answer without the name of its episode, so that a fork's turns keep theirs."""
    if playing.answer is None or playing.failure is not None:
        return answer_digest(f"{playing.failure}/{playing.turn}".encode())
    return answer_digest(playing.answer.partition(b",")[2])


def unpacked(data: bytes | None, what: str) -> bytes:
    """Return bytes that were packed for the journal.

    Raises:
        ProblemError: ``journal_damaged``.
    """
    try:
        return zlib.decompress(data or b"")
    except (TypeError, zlib.error) as error:
        raise ProblemError("journal_damaged", f"{what} is damaged") from error


def pack_effects(effects: Iterable[Effect]) -> bytes:
    """Return effects as bytes."""
    return canonical_bytes(effects_to_json(effects))


def unpack_effects(data: bytes | None) -> list[Effect]:
    """Return the effects that :func:`pack_effects` packed."""
    return [] if data is None else effects_of(json.loads(data))


def pack_world(playing: Episode) -> bytes:
    """Return a world as bytes, with its record and all that is needed to go on in it."""
    saved = {
        "world": base64.b64encode(playing.env.snapshot()).decode("ascii"),
        "record": playing.recorded.save(),
        "answer": None if playing.answer is None else playing.answer.decode(),
        "said": None if playing.said is None else playing.said.decode(),
        "traces": [trace.decode() for trace in playing.traces],
    }
    return zlib.compress(json.dumps(saved).encode(), 1)


# ---- the way back ----------------------------------------------------------------------------------------------------


async def rebuild(env: Environment, loaded: Loaded, caller: Caller, *, sealed: bool) -> Episode:
    """Return an episode as the journal says it is, in a fresh environment.

    Raises:
        ProblemError: ``diverged`` where the environment plays otherwise than before, ``journal_damaged`` where the
            journal holds what it never wrote.
    """
    try:
        opening = zlib.decompress(loaded.episode.opening)
        player = PlayerBody.model_validate_json(loaded.episode.player)
        recorded = Recorded(env, privileged=player.privileged, library=player.library)
        if loaded.saved is not None:
            playing = _restored(loaded, recorded, opening, player, sealed=sealed)
        else:
            effects = unpack_effects(loaded.episode.effects)
            ref = TaskRef(loaded.episode.split, loaded.episode.number)
            observation = await caller.call(env, lambda: recorded.reset(ref, effects=effects))
            playing = Episode.opened(opening, recorded, player, traced=loaded.session.traced, sealed=sealed)
            if observation.to_json() != playing.opened_with():
                raise ProblemError("diverged", "the episode begins with another observation than before")
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise ProblemError("journal_damaged", f"the row of episode {loaded.episode.id} is damaged") from error
    except AgentEnvsError as error:
        raise ProblemError("diverged", f"the episode cannot be begun again: {type(error).__name__}") from error
    await play_again(playing, loaded.turns, caller)
    return playing


def _restored(loaded: Loaded, recorded: Recorded, opening: bytes, player: PlayerBody, *, sealed: bool) -> Episode:
    if loaded.saved is None:
        raise KeyError("no checkpoint")
    saved = json.loads(zlib.decompress(loaded.saved.data))
    recorded.env.restore(base64.b64decode(saved["world"]))
    recorded.restore(saved["record"])
    playing = Episode.opened(opening, recorded, player, traced=loaded.session.traced, sealed=sealed)
    playing.resume(
        loaded.saved.turn,
        None if saved["said"] is None else saved["said"].encode(),
        None if saved["answer"] is None else saved["answer"].encode(),
        [trace.encode() for trace in saved["traces"]],
    )
    return playing


async def play_again(playing: Episode, turns: Iterable[PlayedTurn], caller: Caller) -> float:
    """Play turns of the journal, and return the seconds it took.

    Raises:
        ProblemError: ``diverged`` or ``journal_damaged``; the detail names the turn.
    """
    began = breath = time.perf_counter()
    for row in turns:
        if row.turn != playing.turn + 1:
            raise ProblemError("journal_damaged", f"turn {playing.turn + 1} of {playing.name} is missing")
        await _again(playing, row, caller)
        if digest_of(playing) != row.digest:
            raise ProblemError("diverged", f"turn {row.turn} of {playing.name} has another answer than before")
        if time.perf_counter() - breath > BREATH_SECONDS:
            await asyncio.sleep(0)
            breath = time.perf_counter()
    return time.perf_counter() - began


async def _again(playing: Episode, row: PlayedTurn, caller: Caller) -> None:
    if row.failed is not None:
        playing.fail_again(row.turn, row.action, row.failed)
        return
    try:
        action, effects = bodies.loads(row.action), unpack_effects(row.effects)
    except (ValueError, KeyError, TypeError, ProblemError) as error:
        raise ProblemError("journal_damaged", f"turn {row.turn} of {playing.name} is damaged") from error
    try:
        playing.played(row.turn, row.action, await caller.step(playing.recorded, action, effects=effects))
    except Exception as error:
        raise ProblemError("diverged", f"turn {row.turn} of {playing.name} fails, which it did not") from error
