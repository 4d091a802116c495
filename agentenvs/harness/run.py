"""Evaluates a policy: plans the episodes, plays them K at a time, and leaves a run folder that can be checked.

    manifest.json     who played what with which code, and digests over the rest
    episodes.jsonl    a summary line an episode, in the order they ended
    records/          one episode record each: replayable, hash-chained
    sidecars/         texts, raw replies, times
    summary.json      rates with intervals, per task type
    report.html       the same to look at

Each of the K workers is a thread with an environment and a policy of its own. A stream (``order`` given) has one worker
and one policy that lives through all episodes; each ended episode is handed to it if it learns.
"""

from __future__ import annotations

import json
import queue
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from agentenvs.core import registry
from agentenvs.core.canon import JSON, canonical, digest
from agentenvs.core.environment import Environment
from agentenvs.core.errors import ConfigError
from agentenvs.core.policy import Learner, Policy, Privileged
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import TaskRef
from agentenvs.harness import manifest as manifests
from agentenvs.harness.policies import PolicyFactory, resolve, source_digest
from agentenvs.harness.rollout import Episode, EpisodeSummary, play
from agentenvs.harness.summary import summarize

RewardVisible = Literal["none", "true", "flipped", "random"]

ENDLESS_EPISODES = 100
"""Episodes of a run on an endless split where none are asked for."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What to evaluate."""

    env: str
    policy: str
    split: str | None = None
    """The environment's default split where None."""
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
    """What a learning policy sees of the reward: a control for in-context learning."""
    settings: Any = None
    """Settings of the ``openai`` policy."""


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
        return len(self.episodes) == self.planned

    @property
    def clean(self) -> bool:
        """Whether the run is complete and nothing failed outside the worlds."""
        return self.complete and not self.interrupted and all(episode.error is None for episode in self.episodes)


@dataclass(frozen=True, slots=True)
class Plan:
    """The episodes of a run, before the first is played."""

    spec: EnvSpec
    split: SplitSpec
    indices: tuple[int, ...]
    factory: PolicyFactory


Progress = Callable[[int, int, int], None]
"""Called with episodes done, planned, and won so far."""


def plan(config: RunConfig) -> Plan:
    """Check a configuration and list its episodes; plays nothing.

    Raises:
        UserError: Some subclass: no such environment, split, index, option or policy, or numbers that make no sense.
    """
    spec = registry.spec(config.env)
    if config.concurrency < 1:
        raise ConfigError(f"concurrency {config.concurrency} makes no sense", fix="give 1 or more")
    if config.episodes is not None and config.episodes < 1:
        raise ConfigError(f"{config.episodes} episodes make no run", fix="give 1 or more")
    env = registry.make_from(spec, **config.options)
    try:
        split = _split(env, config.split or spec.default_split)
        indices = _indices(config, split)
        for index in (indices[0], indices[-1]):
            env.check_ref(TaskRef(split.name, index))
    finally:
        env.close()
    factory = resolve(config.policy, spec, config.settings)
    return Plan(spec, split, indices, factory)


def evaluate(config: RunConfig, progress: Progress | None = None) -> RunResult:
    """Play a run and write its folder.

    A keyboard interrupt ends the running episodes as abandoned, writes everything, and returns an incomplete result.

    Raises:
        UserError: As for :func:`plan`; nothing was written.
    """
    planned = plan(config)
    # A policy that cannot be made is the user's mistake, to be told before the first episode and not once in each.
    probe = planned.factory()
    folder = _folder(config, planned.spec)
    runner = _Runner(config, planned, folder, progress)
    runner.run(probe)
    result = _write_end(config, planned, folder, runner.episodes, probe)
    return replace(result, interrupted=runner.interrupted)


class _Runner:
    def __init__(self, config: RunConfig, planned: Plan, folder: Path, progress: Progress | None) -> None:
        self.config = config
        self.planned = planned
        self.folder = folder
        self.progress = progress
        self.episodes: list[EpisodeSummary] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.interrupted = False
        self._failure: BaseException | None = None
        self._todo: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        for number, index in enumerate(planned.indices):
            self._todo.put((number, index))

    def run(self, first: Policy) -> None:
        """Play everything; return when all ended or an interrupt stopped them."""
        count = 1 if self.config.order is not None else min(self.config.concurrency, len(self.planned.indices))
        policies = [first, *(self.planned.factory() for _ in range(count - 1))]
        threads = [threading.Thread(target=self._work, args=(policy,), daemon=True) for policy in policies]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
        except KeyboardInterrupt:
            self.interrupted = True
            self._stop.set()
            for thread in threads:
                thread.join(10.0)
        if self._failure is not None:
            raise self._failure

    def _work(self, policy: Policy) -> None:
        env = registry.make_from(self.planned.spec, **self.config.options)
        try:
            while not self._stop.is_set():
                try:
                    number, index = self._todo.get_nowait()
                except queue.Empty:
                    return
                self._one(env, policy, number, index)
        except BaseException as error:  # noqa: BLE001 - boundary of a thread: the caller's thread raises it
            self._failure = error
            self._stop.set()
        finally:
            env.close()
            close = getattr(policy, "close", None)
            if callable(close):
                close()

    def _one(self, env: Environment, policy: Policy, number: int, index: int) -> None:
        learner = policy if isinstance(policy, Learner) else None
        library = learner.library_digest() if learner is not None else None
        ref = TaskRef(self.planned.split.name, index)
        episode = play(env, policy, ref, number=number, library=library, stop=self._stop.is_set)
        self._keep(episode)
        if learner is not None and self.config.order is not None:
            learner.episode_ended(episode.record, self._shown(episode.summary))

    def _keep(self, episode: Episode) -> None:
        number = episode.summary.number
        (self.folder / "records" / f"{number:06d}.jsonl").write_bytes(episode.record)
        sidecar = json.dumps(episode.sidecar, ensure_ascii=False, default=repr)
        (self.folder / "sidecars" / f"{number:06d}.json").write_text(sidecar, encoding="utf-8", errors="replace")
        with self._lock:
            self.episodes.append(episode.summary)
            with (self.folder / "episodes.jsonl").open("a", encoding="utf-8") as table:
                table.write(canonical(episode.summary.to_json()) + "\n")
            if self.progress is not None:
                won = sum(done.success for done in self.episodes)
                self.progress(len(self.episodes), len(self.planned.indices), won)

    def _shown(self, summary: EpisodeSummary) -> float | None:
        """Return the reward as far as the policy may see it."""
        low, high = self.planned.spec.reward_range
        match self.config.reward_visible:
            case "none":
                return None
            case "true":
                return summary.reward
            case "flipped":
                return low + high - summary.reward
            case "random":
                key = scenario_key(self.planned.spec.slug, summary.split, summary.index)
                return low if Stream(key, f"reward-visible/{summary.number}").chance(1, 2) else high


def _split(env: Environment, name: str) -> SplitSpec:
    env.check_ref(TaskRef(name, 0))
    return env.splits()[name]


def _indices(config: RunConfig, split: SplitSpec) -> tuple[int, ...]:
    if config.order is not None:
        if not config.order:
            raise ConfigError("the order of the stream is empty", fix="give at least one index")
        if split.size is not None and not all(0 <= index < split.size for index in config.order):
            raise ConfigError(f"the order names indices that split {split.name!r} does not have")
        return config.order
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


def _folder(config: RunConfig, spec: EnvSpec) -> Path:
    name = config.policy.replace(":", "-").replace("/", "-")
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    folder = config.out or Path("runs") / f"{spec.slug}--{name}" / stamp
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is not empty", why="a run never overwrites another", fix="give another --out")
    try:
        for part in ("records", "sidecars"):
            (folder / part).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the run folder {folder} cannot be made", why=str(error), fix="give another --out"
        ) from error
    return folder


def _write_end(
    config: RunConfig, planned: Plan, folder: Path, episodes: Sequence[EpisodeSummary], policy: Policy
) -> RunResult:
    ordered = tuple(sorted(episodes, key=lambda episode: episode.number))
    summary = summarize(ordered)
    made = _manifest(config, planned, folder, ordered, summary, policy)
    (folder / "manifest.json").write_bytes(made.to_bytes())
    (folder / "summary.json").write_text(canonical(summary) + "\n", encoding="utf-8")
    result = RunResult(folder, summary, made, ordered, len(planned.indices))
    from agentenvs.harness.report import write_report

    write_report([folder], folder / "report.html")
    return result


def _manifest(
    config: RunConfig,
    planned: Plan,
    folder: Path,
    episodes: Sequence[EpisodeSummary],
    summary: dict[str, JSON],
    policy: Policy,
) -> manifests.Manifest:
    env = registry.make_from(planned.spec, **config.options)
    options = env.public_options()
    budgets = env.declared_budgets()
    env.close()
    records = [(folder / "records" / f"{episode.number:06d}.jsonl").read_bytes() for episode in episodes]
    return manifests.Manifest(
        run_id=manifests.uuid7(),
        submission_id=None,
        created=manifests.now(),
        suite=manifests.suite_entry(),
        envs=[manifests.env_entry(planned.spec, planned.split, len(planned.indices), options, budgets)],
        user=None,
        agent=manifests.AgentEntry(
            name=config.policy,
            version=None,
            source=planned.spec.players.get(config.policy, config.policy if ":" in config.policy else None),
            source_hash=source_digest(config.policy, planned.spec),
            lock_hash=None,
            prompts_hash=getattr(policy, "protocol_digest", None),
            tools_modified=False,
            training_data=None,
            privileged=isinstance(policy, Privileged),
        ),
        model=getattr(policy, "model_entry", None),
        harness=manifests.HarnessEntry(
            version=manifests.suite_entry().version,
            concurrency=config.concurrency,
            retries=0,
            stream=config.order is not None,
            order=None if config.order is None else list(config.order),
            reward_visible=config.reward_visible,
        ),
        machine=manifests.machine_entry(),
        price_table=None,
        results=manifests.results(summary),
        complete=len(episodes) == len(planned.indices),
        episode_table_digest=digest([episode.to_json() for episode in episodes]),
        merkle_root=manifests.merkle_root(records),
        signatures=[],
        exclusions=[],
    )
