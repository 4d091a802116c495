"""Evaluates a policy: plans the episodes, has them played K at a time, and leaves a run folder that can be checked.

:mod:`~agentenvs.harness.folder` says what is in the folder, :mod:`~agentenvs.harness.workers` how episodes are played,
:mod:`~agentenvs.harness.resuming` how a run goes on that came to no end. Every started episode counts; a stream
(``order`` given) is one policy through a declared order of episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from agentenvs.core import registry
from agentenvs.core.errors import ConfigError, DataError, UnknownEnvError
from agentenvs.core.policy import Policy
from agentenvs.core.record import without_rewards
from agentenvs.core.spec import EnvSpec
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import TaskRef
from agentenvs.harness import ending, planfile, resuming
from agentenvs.harness import folder as folders
from agentenvs.harness.budget import Budget, Meter
from agentenvs.harness.cluster import RayCrew, check_cluster
from agentenvs.harness.ending import RunResult
from agentenvs.harness.planfile import PlanFile
from agentenvs.harness.planning import ENDLESS_EPISODES, Plan, RewardVisible, RunConfig, check_player, plan
from agentenvs.harness.policies import wanted_options
from agentenvs.harness.program import is_program
from agentenvs.harness.resuming import Standing
from agentenvs.harness.rollout import Episode, EpisodeSummary
from agentenvs.harness.workers import Crew

Progress = Callable[[int, int, int], None]
"""Called with episodes done, planned, and won so far."""


@dataclass(frozen=True, slots=True)
class Again:
    """How a run goes on: what belongs to the machine and not to the run."""

    retry_errors: bool = False
    """Whether episodes that failed by a world, a server or a model's endpoint are played again."""
    concurrency: int | None = None
    """As before where None."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """Options that belong to the machine, such as the folder of data."""
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    budget: Budget = field(default_factory=Budget)
    api_key_env: str | None = None
    """As before where None."""


def evaluate(config: RunConfig, progress: Progress | None = None) -> RunResult:
    """Play a run and write its folder.

    A keyboard interrupt ends the running episodes as abandoned, writes everything, and returns an incomplete result.

    Args:
        config: What to evaluate.
        progress: Told of every ended episode, from the workers' threads, one at a time.

    Raises:
        UserError: As for :func:`plan`, and nothing was written; or a stream's policy cannot go on, or the disk is full,
            and what ended before was written.
    """
    ready = _ready(config)
    folder = folders.make_folder(config.out, ready.planned.spec.slug, config.policy)
    with folders.held(folder):
        ready.written.write(folder)
        return _played(ready, folder, Standing.fresh(len(ready.planned.indices)), progress)


def config_of(folder: Path, again: Again) -> RunConfig:
    """Return what the run in a folder was asked for, with what is given anew.

    Raises:
        UserError: Some subclass: there is no such run, or it cannot go on with what is given.
    """
    written = planfile.read(folder)
    if written.stream:
        raise ConfigError(
            f"the stream in {folder} cannot go on", why="what its policy had learned is gone", fix="play it again"
        )
    if written.served and _is_sealed(written):
        raise _given_out()
    if missing := sorted(set(written.machine_options) - set(again.machine)):
        raise ConfigError(f"the run was begun with the option {missing[0]}", fix=f"give -o {missing[0]}=VALUE again")
    if written.served and again.url is None and not is_program(written.policy):
        raise ConfigError("the worlds of this run were played by a server", fix="give its --url again")
    settings = dict(written.settings or {})
    if again.api_key_env is not None and settings:
        settings["api_key_env"] = again.api_key_env
    first = len(written.indices) // written.trials
    return RunConfig(
        env=written.env,
        policy=written.policy,
        split=written.split,
        episodes=first,
        start=written.indices[0],
        concurrency=again.concurrency or written.concurrency,
        options={**written.options, **again.machine},
        out=folder,
        episode_seconds=written.episode_seconds,
        trials=written.trials,
        budget=again.budget,
        settings=planfile.settings_of(settings or None),
        url=again.url,
        token=again.token,
    )


def _is_sealed(written: PlanFile) -> bool:
    """Return whether a run is of a sealed split, as far as the environment is known here."""
    try:
        splits = registry.spec(written.entry.env_id).splits
    except UnknownEnvError:
        return False
    return any(split.sealed for split in splits if split.name == written.split)


def _given_out() -> ConfigError:
    return ConfigError(
        "a run on a sealed split cannot go on",
        why="its server gave each scenario out once: those that were in flight are spent",
        fix="what ended stands in its folder; a ticket that is not used up is played on by a new run",
    )


def resume(config: RunConfig, *, retry_errors: bool = False, progress: Progress | None = None) -> RunResult:
    """Go on with the run in a folder: what ended is kept, what was in flight is begun again.

    Args:
        config: What :func:`config_of` returned.
        retry_errors: Whether episodes that failed by a world, a server or a model's endpoint are played again; their
            earlier attempts stay on record.
        progress: As for :func:`evaluate`.

    Raises:
        UserError: As for :func:`evaluate`; or somebody is playing it, something is not as it was when it was begun, or
            the folder is damaged: nothing was changed then.
    """
    folder = config.out
    if folder is None:
        raise ConfigError("there is no folder to go on with")
    with folders.held(folder):
        written = planfile.read(folder)
        ready = _ready(config, written)
        if changed := written.differences(ready.written):
            raise ConfigError(
                f"the run in {folder} cannot go on",
                why=f"not as it was when it was begun: {', '.join(changed)}",
                fix="go on with what it was begun with, or play it from the start",
            )
        standing = resuming.look(folder, written, retry_errors=retry_errors)
        resuming.clear(folder, standing)
        return _played(ready, folder, standing, progress)


@dataclass(frozen=True, slots=True)
class _Ready:
    config: RunConfig
    planned: Plan
    policies: list[Policy]
    written: PlanFile


def _ready(config: RunConfig, before: PlanFile | None = None) -> _Ready:
    check_cluster(config)
    planned = plan(config)
    if before is not None and planned.given_out:
        raise _given_out()
    # A policy that cannot be made is the user's mistake, to be told before the first episode and not once in each.
    policies = [planned.factory() for _ in range(planned.workers(config))]
    wanted = wanted_options(policies[0], planned.spec)
    if wanted and not planned.given_out:  # a sealed scenario is shown to everybody as its server shows it
        config = replace(config, options={**wanted, **config.options})
        planned = plan(config)
    check_player(config, planned, policies[0])
    return _Ready(config, planned, policies, ending.plan_file(config, planned, policies[0], before))


def _played(ready: _Ready, folder: Path, standing: Standing, progress: Progress | None) -> RunResult:
    config, planned = ready.config, ready.planned
    meter = Meter(config.budget)
    table = _Table(folder, standing, meter, progress)
    tasks = [(number, TaskRef(planned.split.name, planned.indices[number])) for number in standing.todo]
    crew = _crew(ready, tasks, table)
    crew.run(ready.policies)
    came = ending.Came(folder, table.episodes, table.begun, standing.earlier, meter, interrupted=crew.interrupted)
    try:
        result = ending.write(ready.written, config, planned, came)
    except OSError as error:
        raise crew.failure or _unwritten(folder, error) from error
    if crew.failure is not None:
        raise crew.failure
    return result


def _crew(ready: _Ready, tasks: list[tuple[int, TaskRef]], table: _Table) -> Crew | RayCrew:
    config, planned = ready.config, ready.planned
    if config.backend == "ray":
        return RayCrew(config, tasks, table.add, begin=table.begin, may_start=table.meter.may_start)
    return Crew(
        lambda: planned.stage.make(config.options),
        planned.factory,
        tasks,
        table.add,
        begin=table.begin,
        may_start=table.meter.may_start,
        shown=None if config.order is None else partial(shown_episode, config.reward_visible, planned.spec),
        seconds=None if is_program(config.policy) else config.episode_seconds,
    )


def _unwritten(folder: Path, error: OSError) -> DataError:
    fix = f"make room, then `agentenvs eval --resume {folder}`; all episodes are kept"
    return DataError(f"the end of the run in {folder} cannot be written", why=str(error), fix=fix)


class _Table:
    """The episodes that ended so far: on disk, in memory, on the screen."""

    def __init__(self, folder: Path, standing: Standing, meter: Meter, progress: Progress | None) -> None:
        self.episodes: list[EpisodeSummary] = list(standing.kept)
        self.begun = standing.begun
        self._attempts = dict(standing.attempts)
        self._folder = folder
        self._planned = standing.planned
        self.meter = meter
        self._progress = progress
        for usage in [*(one.usage for one in standing.kept), *(one.usage for one in standing.earlier)]:
            meter.add(usage)

    def begin(self, number: int) -> None:
        """Note that an episode is begun; callers take turns."""
        attempt = self._attempts.get(number, 0) + 1
        folders.begin(self._folder, number, attempt)
        self._attempts[number] = attempt
        self.begun += 1

    def add(self, episode: Episode) -> None:
        """Take an episode; callers take turns."""
        summary = replace(episode.summary, attempt=self._attempts[episode.summary.number])
        folders.keep(self._folder, replace(episode, summary=summary))
        self.episodes.append(summary)
        self.meter.add(summary.usage)
        if self._progress is not None:
            won = sum(done.success for done in self.episodes)
            self._progress(len(self.episodes), self._planned, won)


def shown_episode(kind: RewardVisible, spec: EnvSpec, episode: Episode) -> tuple[bytes, float | None]:
    """Return what a learning policy gets of an ended episode: the whole record only where it may see the reward."""
    record = episode.record if kind == "true" else without_rewards(episode.record)
    return record, shown_reward(kind, spec, episode.summary)


def shown_reward(kind: RewardVisible, spec: EnvSpec, summary: EpisodeSummary) -> float | None:
    """Return the reward of an episode as far as a policy that learns may see it.

    ``flipped`` mirrors it in the environment's range; ``random`` is one of the range's ends, drawn from a stream of the
    episode's address and number, so that every policy is told the same.
    """
    low, high = spec.reward_range
    match kind:
        case "none":
            return None
        case "true":
            return summary.reward
        case "flipped":
            return low + high - summary.reward
        case "random":
            key = scenario_key(spec.slug, summary.split, summary.index)
            return low if Stream(key, f"reward-visible/{summary.number}").chance(1, 2) else high


__all__ = [
    "ENDLESS_EPISODES",
    "Again",
    "Plan",
    "Progress",
    "RewardVisible",
    "RunConfig",
    "RunResult",
    "config_of",
    "evaluate",
    "plan",
    "resume",
    "shown_episode",
    "shown_reward",
]
