"""Evaluates a policy: plans the episodes, has them played K at a time, and leaves a run folder that can be checked.

:mod:`~agentenvs.harness.folder` says what is in the folder, :mod:`~agentenvs.harness.workers` how episodes are played.
Every started episode counts; a stream (``order`` given) is one policy through a declared order of episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from agentenvs._version import __version__
from agentenvs.client.remote import same_release
from agentenvs.core.canon import JSON, digest
from agentenvs.core.errors import ConfigError, OptionError
from agentenvs.core.playable import Playable
from agentenvs.core.policy import Policy, Privileged
from agentenvs.core.record import without_rewards
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import TaskRef
from agentenvs.harness import folder as folders
from agentenvs.harness import manifest as manifests
from agentenvs.harness.policies import PolicyFactory, resolve, source_digest, wanted_options
from agentenvs.harness.program import is_program, program
from agentenvs.harness.rollout import Episode, EpisodeSummary
from agentenvs.harness.stage import Stage
from agentenvs.harness.summary import summarize
from agentenvs.harness.workers import Crew

if TYPE_CHECKING:
    import httpx

    from agentenvs.client import ClientSettings

RewardVisible = Literal["none", "true", "flipped", "random"]

ENDLESS_EPISODES = 100
"""Episodes of a run on an endless split where none are asked for."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What to evaluate."""

    env: str
    policy: str
    split: str | None = None
    """Where None, the split the environment's spec names for evaluations, else its default split."""
    episodes: int | None = None
    """The whole split where None, or 100 of an endless one."""
    start: int = 0
    """Index (or seed) of the first episode."""
    concurrency: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    out: Path | None = None
    """Run folder; a new one under ``runs/`` where None."""
    order: tuple[int, ...] | None = None
    """Indices of a stream, in order; one policy lives through them."""
    reward_visible: RewardVisible = "none"
    """What the policy of a stream sees of the reward: a control for in-context learning."""
    episode_seconds: float | None = None
    """Wall limit of an episode; what overruns is cut, and its ending says so. None for none."""
    settings: Any = None
    """Settings of the ``openai`` policy."""
    url: str | None = None
    """The server whose environment is played; that of this process where None."""
    token: str | None = field(default=None, repr=False)
    """What the server asks of its clients; that of ``AGENTENVS_TOKEN`` where None."""
    client: ClientSettings | None = None
    """Patience with the server."""
    transport: httpx.BaseTransport | None = field(default=None, repr=False)
    """What carries the requests to the server instead of a connection."""

    def stage(self) -> Stage:
        """Return where the environment is played.

        Raises:
            UserError: Some subclass: it cannot be played there.
        """
        return Stage(self.env, self.url, token=self.token, settings=self.client, transport=self.transport)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of a run."""

    folder: Path
    summary: dict[str, JSON]
    manifest: manifests.Manifest
    episodes: tuple[EpisodeSummary, ...]
    """In order of number."""
    planned: int
    interrupted: bool = False
    """Whether a keyboard interrupt ended it."""

    @property
    def complete(self) -> bool:
        """Whether every planned episode was played."""
        return self.manifest.complete

    @property
    def clean(self) -> bool:
        """Whether the run is complete and nothing failed outside the worlds: what the exit status tells."""
        return self.complete and all(episode.error is None for episode in self.episodes)


@dataclass(frozen=True, slots=True)
class Plan:
    """The episodes of a run, before the first is played."""

    stage: Stage
    split: SplitSpec
    indices: tuple[int, ...]
    factory: PolicyFactory
    options: dict[str, JSON]
    """Every option of the environment that belongs to the episodes, with its value."""
    budgets: dict[str, int]

    @property
    def spec(self) -> EnvSpec:
        """What the environment says of itself."""
        return self.stage.spec

    def workers(self, config: RunConfig) -> int:
        """Return how many workers play it: one for a stream, else as many as asked for and of use."""
        return 1 if config.order is not None else min(config.concurrency, len(self.indices))


Progress = Callable[[int, int, int], None]
"""Called with episodes done, planned, and won so far."""


def plan(config: RunConfig) -> Plan:
    """Check a configuration and list its episodes; plays nothing.

    Raises:
        UserError: Some subclass: no such environment, split, index, option or policy, or numbers that make no sense.
    """
    _check(config)
    stage = config.stage()
    spec = stage.spec
    env = stage.make(config.options)
    try:
        split = _split(env, config.split or spec.eval_split or spec.default_split)
        indices = _indices(config, split)
        for index in (indices[0], indices[-1]):
            env.check_ref(TaskRef(split.name, index))
        options, budgets = env.public_options(), env.declared_budgets()
    finally:
        env.close()
    return Plan(stage, split, indices, _factory(config, spec), options, budgets)


def _factory(config: RunConfig, spec: EnvSpec) -> PolicyFactory:
    if is_program(config.policy):
        program(config.policy, config.url, config.episode_seconds)  # a mistake in it is to be told now
        return lambda: program(config.policy, config.url, config.episode_seconds)
    return resolve(config.policy, spec, config.settings)


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
    planned = plan(config)
    stream = config.order is not None
    # A policy that cannot be made is the user's mistake, to be told before the first episode and not once in each.
    policies = [planned.factory() for _ in range(planned.workers(config))]
    if wanted := wanted_options(policies[0], planned.spec):
        config = replace(config, options={**wanted, **config.options})
        planned = plan(config)
    _check_player(config, planned, policies[0])
    folder = folders.make_folder(config.out, planned.spec.slug, config.policy)
    table = _Table(folder, len(planned.indices), progress)
    crew = Crew(
        lambda: planned.stage.make(config.options),
        planned.factory,
        [TaskRef(planned.split.name, index) for index in planned.indices],
        table.add,
        shown=partial(shown_episode, config.reward_visible, planned.spec) if stream else None,
        seconds=None if is_program(config.policy) else config.episode_seconds,
    )
    crew.run(policies)
    result = _write_end(config, planned, folder, table.episodes, policies[0], crew.interrupted)
    if crew.failure is not None:
        raise crew.failure
    return result


class _Table:
    """The episodes that ended so far: on disk, in memory, on the screen."""

    def __init__(self, folder: Path, planned: int, progress: Progress | None) -> None:
        self.episodes: list[EpisodeSummary] = []
        self._folder = folder
        self._planned = planned
        self._progress = progress

    def add(self, episode: Episode) -> None:
        """Take an episode; callers take turns."""
        folders.keep(self._folder, episode)
        self.episodes.append(episode.summary)
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


def _check(config: RunConfig) -> None:
    if config.concurrency < 1:
        raise ConfigError(f"concurrency {config.concurrency} makes no sense", fix="give 1 or more")
    if config.episodes is not None and config.episodes < 1:
        raise ConfigError(f"{config.episodes} episodes make no run", fix="give 1 or more")
    if config.episode_seconds is not None and not config.episode_seconds > 0:
        raise ConfigError(f"a wall limit of {config.episode_seconds} s leaves no time", fix="give more than 0")
    if config.episode_seconds is not None and not isfinite(config.episode_seconds * 1000):
        raise ConfigError(f"a wall limit of {config.episode_seconds} s is none", fix="leave it out")
    if config.order is None and config.reward_visible != "none":
        raise ConfigError(
            f"reward visible {config.reward_visible!r} has no effect here",
            why="only the policy of a stream sees ended episodes",
            fix="give --stream as well",
        )
    if config.order is not None and config.start:
        raise ConfigError("a stream starts where its order says", fix="leave out --start")


def _check_player(config: RunConfig, planned: Plan, policy: Policy) -> None:
    """Refuse what does not go with a player behind a wire.

    Raises:
        UnknownEnvError: It must be shown the scenario, and the environment is not installed here.
        OptionError: It need not, and there are options for the world here.
    """
    if config.url is None:
        return
    if isinstance(policy, Privileged):
        same_release(planned.spec)
    elif machine := planned.stage.machine_options(config.options):
        raise OptionError(
            f"the option {machine[0]!r} has no effect here",
            why="the server plays its own; only a player that is shown the scenario needs the same world here",
            fix="leave it out",
        )


def _split(env: Playable, name: str) -> SplitSpec:
    env.check_ref(TaskRef(name, 0))
    return env.splits()[name]


def _indices(config: RunConfig, split: SplitSpec) -> tuple[int, ...]:
    if config.order is not None:
        if not config.order:
            raise ConfigError("the order of the stream is empty", fix="give at least one index")
        if split.size is not None and not all(0 <= index < split.size for index in config.order):
            raise ConfigError(f"the order names indices that split {split.name!r} does not have")
        if (config.episodes or 0) > len(config.order):
            raise ConfigError(f"the order names {len(config.order)} episodes, not {config.episodes}")
        return config.order[: config.episodes]
    left = ENDLESS_EPISODES if split.size is None else split.size - config.start
    count = left if config.episodes is None else config.episodes
    if split.size is not None and count > left:
        raise ConfigError(
            f"split {split.name!r} has {max(left, 0)} scenarios from index {config.start}, not {count}",
            why="each is played once",
            fix=f"ask for at most {max(left, 0)}",
        )
    if count < 1:
        raise ConfigError(f"split {split.name!r} has no scenario at index {config.start}")
    return tuple(range(config.start, config.start + count))


def _write_end(
    config: RunConfig,
    planned: Plan,
    folder: Path,
    episodes: Sequence[EpisodeSummary],
    policy: Policy,
    interrupted: bool,
) -> RunResult:
    from agentenvs.harness.report import write_report

    ordered = tuple(sorted(episodes, key=lambda episode: episode.number))
    summary = summarize(ordered)
    complete = len(ordered) == len(planned.indices) and not interrupted
    made = _manifest(config, planned, policy, _Came(folder, ordered, summary, complete))
    folders.write_json(folder / "summary.json", summary)
    (folder / "manifest.json").write_bytes(made.to_bytes())
    write_report([folder], folder / "report.html")
    return RunResult(folder, summary, made, ordered, len(planned.indices), interrupted)


class _Came(NamedTuple):
    """What came of a run."""

    folder: Path
    episodes: tuple[EpisodeSummary, ...]
    summary: dict[str, JSON]
    complete: bool


def _manifest(config: RunConfig, planned: Plan, policy: Policy, came: _Came) -> manifests.Manifest:
    seconds = config.episode_seconds
    prompts, model = getattr(policy, "protocol_digest", None), getattr(policy, "model_entry", None)
    return manifests.Manifest(
        run_id=manifests.uuid7(),
        submission_id=None,
        created=manifests.now(),
        suite=manifests.suite_entry(),
        envs=[
            manifests.env_entry(
                planned.spec,
                planned.split,
                len(planned.indices),
                planned.options,
                planned.budgets,
                here=config.url is None,
            )
        ],
        user=None,
        agent=manifests.AgentEntry(
            name=config.policy,
            version=None,
            source=planned.spec.players.get(config.policy, config.policy if ":" in config.policy else None),
            source_hash=source_digest(config.policy, planned.spec),
            lock_hash=None,
            prompts_hash=prompts if isinstance(prompts, str) else None,
            tools_modified=False,
            training_data=None,
            privileged=isinstance(policy, Privileged),
        ),
        model=model if isinstance(model, manifests.ModelEntry) else None,
        harness=manifests.HarnessEntry(
            version=__version__,
            concurrency=planned.workers(config),
            retries=getattr(config.settings, "retries", 0),
            episode_milliseconds=None if seconds is None else round(seconds * 1000),
            stream=config.order is not None,
            order=None if config.order is None else list(config.order),
            reward_visible=config.reward_visible,
            server=None if config.url is None else manifests.server_entry(config.url),
        ),
        machine=manifests.machine_entry(),
        price_table=None,
        results=manifests.results(came.summary),
        complete=came.complete,
        episode_table_digest=digest([episode.to_json() for episode in came.episodes]),
        merkle_root=manifests.merkle_root(folders.read_leaves(came.folder, came.episodes)),
        signatures=[],
        exclusions=[],
    )
