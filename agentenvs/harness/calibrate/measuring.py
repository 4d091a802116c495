"""Plays what is to be measured, in parts, on as many processes as asked for.

Episodes are played by the same rollout as those of a run, so that what fails counts as lost here too. A part is
played in one process; the order of parts, and with it the result, does not depend on who is first.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentenvs.core import registry, targets
from agentenvs.core.canon import JSON, canonical
from agentenvs.core.playable import Playable
from agentenvs.core.policy import Privileged
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import TaskRef
from agentenvs.harness.calibrate.plan import Row
from agentenvs.harness.policies import resolve, wanted_options
from agentenvs.harness.rollout import EpisodeSummary, play

PART = 20
"""Episodes of a part."""

Progress = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a row."""

    row: Row
    options: dict[str, JSON]
    """Every option of the episodes, with its value."""
    wanted: tuple[str, ...]
    """Those that the player asked for itself."""
    privileged: bool
    episodes: list[EpisodeSummary]


class _Part(NamedTuple):
    target: str
    row: Row
    data: str | None
    start: int
    stop: int


class _Played(NamedTuple):
    options: dict[str, JSON]
    wanted: tuple[str, ...]
    privileged: bool
    episodes: list[EpisodeSummary]


def measure(
    target: str,
    rows: Sequence[Row],
    *,
    data: str | None = None,
    jobs: int = 1,
    progress: Progress = lambda done, total, won: None,
) -> list[Measured]:
    """Play rows and return what came of each, in order.

    Args:
        target: The environment: see :mod:`agentenvs.core.targets`.
        rows: What to play.
        data: Folder of the field's own files.
        jobs: Processes; 1 plays in this one.
        progress: Told episodes done, planned and won.

    Raises:
        UserError: Some subclass: no such environment, split, option or player.
    """
    parts = [
        _Part(target, row, data, start, min(start + PART, row.episodes))
        for row in rows
        for start in range(0, row.episodes, PART)
    ]
    total = sum(part.stop - part.start for part in parts)
    found: dict[_Key, _Played] = {}
    done = won = 0
    for part, played in _all(parts, jobs):
        found[_key(part)] = played
        done += len(played.episodes)
        won += sum(episode.success for episode in played.episodes)
        progress(done, total, won)
    return [_joined(row, [found[_key(part)] for part in parts if part.row is row]) for row in rows]


_Key = tuple[int, int]


def _key(part: _Part) -> _Key:
    return id(part.row), part.start


def _joined(row: Row, played: Sequence[_Played]) -> Measured:
    first = played[0]
    episodes = [episode for part in played for episode in part.episodes]
    return Measured(row, first.options, first.wanted, first.privileged, episodes)


def _all(parts: Sequence[_Part], jobs: int) -> Iterator[tuple[_Part, _Played]]:
    if jobs <= 1 or len(parts) == 1:
        room = _Room()
        try:
            for part in parts:
                yield part, _play(part, room)
        finally:
            room.close()
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(parts)), context, initializer=_enter) as pool:
        pending: dict[Future[_Played], _Part] = {pool.submit(_play_there, part): part for part in parts}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _enter() -> None:
    """Have a worker process give up its environment at its end, which atexit is not told of."""
    multiprocessing.util.Finalize(None, _room.close, exitpriority=10)


def _play_there(part: _Part) -> _Played:
    """Play a part in a worker process."""
    return _play(part, _room)


def _play(part: _Part, room: _Room) -> _Played:
    row = part.row
    spec = targets.spec_of(part.target)
    factory = resolve(row.player, spec)
    first = factory()
    wanted = {name: value for name, value in wanted_options(first, spec).items() if name not in row.options}
    options: dict[str, Any] = {**wanted, **row.options}
    if part.data is not None and any(option.name == "data" for option in spec.options):
        options["data"] = part.data
    env = room.env(part.target, spec, options)
    refs = [TaskRef(row.split, index) for index in range(part.start, part.stop)]
    env.check_ref(refs[-1])
    episodes = [play(env, factory(), ref, number=ref.index).summary for ref in refs]
    return _Played(env.public_options(), tuple(wanted), isinstance(first, Privileged), episodes)


class _Room:
    """The environment that a process plays; made anew where another is needed."""

    def __init__(self) -> None:
        self._made: tuple[str, str, Playable] | None = None

    def env(self, target: str, spec: EnvSpec, options: dict[str, Any]) -> Playable:
        """Return the environment with these options."""
        wanted = canonical(options)
        if self._made is None or self._made[:2] != (target, wanted):
            self.close()
            self._made = (target, wanted, registry.make_from(spec, **options))
        return self._made[2]

    def close(self) -> None:
        """Give it up."""
        if self._made is not None:
            self._made[2].close()
            self._made = None


_room = _Room()
"""Of a worker process, where parts come one after another."""
