"""What a run leaves behind: its plan before the first episode, and summary, manifest and report at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentenvs._version import __version__
from agentenvs.core.canon import JSON, digest
from agentenvs.core.policy import Policy, Privileged
from agentenvs.harness import folder as folders
from agentenvs.harness import manifest as manifests
from agentenvs.harness.budget import EndedBy, Meter
from agentenvs.harness.planfile import PlanFile, spelled
from agentenvs.harness.planning import Plan, RunConfig
from agentenvs.harness.policies import source_digest
from agentenvs.harness.rollout import EpisodeSummary
from agentenvs.harness.summary import infrastructure, summarize


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
class Came:
    """What came of a run, when nothing more is played."""

    folder: Path
    episodes: Sequence[EpisodeSummary]
    """Those that count."""
    begun: int
    """Attempts that were begun, ever."""
    earlier: Sequence[EpisodeSummary]
    """Attempts whose episode was to be played again."""
    meter: Meter
    interrupted: bool

    @property
    def retried(self) -> int:
        """Episodes that were played again because an attempt had failed by a world, a server or an endpoint."""
        return len({one.number for one in self.earlier if infrastructure(one)})

    @property
    def restarted(self) -> int:
        """Attempts that were cut off with the run's process, or by somebody at the keyboard, and count for nothing."""
        return self.begun - len(self.episodes) - sum(map(infrastructure, self.earlier))

    @property
    def ended_by(self) -> EndedBy | None:
        """What ended the run before all was played."""
        return "interrupt" if self.interrupted else self.meter.ended_by


def plan_file(config: RunConfig, planned: Plan, policy: Policy, before: PlanFile | None = None) -> PlanFile:
    """Return the plan of a run; one that goes on keeps its name and the time of its beginning."""
    secret = {option.name for option in planned.spec.options if option.secret}
    prompts, model = getattr(policy, "protocol_digest", None), getattr(policy, "model_entry", None)
    return PlanFile(
        run_id=before.run_id if before else manifests.uuid7(),
        created=before.created if before else manifests.now(),
        version=__version__,
        env=config.env,
        policy=config.policy,
        split=planned.split.name,
        indices=list(planned.indices),
        trials=config.trials,
        concurrency=planned.workers(config),
        options={name: value for name, value in config.options.items() if name not in secret},
        machine_options=sorted(secret.intersection(config.options)),
        served=config.url is not None,
        episode_seconds=config.episode_seconds,
        stream=config.order is not None,
        settings=spelled(config.settings),
        entry=manifests.env_entry(
            planned.spec,
            planned.split,
            len(planned.indices) // config.trials,
            planned.options,
            planned.budgets,
            trials=config.trials,
            here=config.url is None,
        ),
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
        price_table=getattr(config.settings, "price_table", None),
    )


def write(written: PlanFile, config: RunConfig, planned: Plan, came: Came) -> RunResult:
    """Write summary, manifest and report.

    Raises:
        OSError: The disk does not take them.
    """
    from agentenvs.harness.report import write_report

    ordered = tuple(sorted(came.episodes, key=lambda episode: episode.number))
    summary = {**summarize(ordered), **_beside(planned, came)}
    made = _manifest(written, config, came, ordered, summary)
    folders.write_json(came.folder / "summary.json", summary)
    folders.replace(came.folder / "manifest.json", made.to_bytes())
    write_report([came.folder], came.folder / "report.html")
    return RunResult(came.folder, summary, made, ordered, len(planned.indices), came.interrupted)


def _beside(planned: Plan, came: Came) -> dict[str, JSON]:
    """Return what the summary of a run says beside its episodes."""
    return {
        "planned": len(planned.indices),
        "not_started": len(planned.indices) - len(came.episodes),
        "restarted": came.restarted,
        "retried": came.retried,
        "ended_by": came.ended_by,
        "budget": came.meter.to_json(),
    }


def _manifest(
    written: PlanFile,
    config: RunConfig,
    came: Came,
    ordered: Sequence[EpisodeSummary],
    summary: dict[str, JSON],
) -> manifests.Manifest:
    seconds = config.episode_seconds
    return manifests.Manifest(
        run_id=written.run_id,
        submission_id=None,
        created=written.created,
        suite=manifests.suite_entry(),
        envs=[written.entry],
        user=None,
        agent=written.agent,
        model=written.model,
        harness=manifests.HarnessEntry(
            version=written.version,
            concurrency=written.concurrency,
            retries=getattr(config.settings, "retries", 0),
            episode_milliseconds=None if seconds is None else round(seconds * 1000),
            stream=written.stream,
            order=None if config.order is None else list(config.order),
            reward_visible=config.reward_visible,
            server=None if config.url is None else manifests.server_entry(config.url),
            restarted=came.restarted,
            retried=came.retried,
        ),
        machine=manifests.machine_entry(),
        price_table=written.price_table,
        results=manifests.results(summary),
        complete=len(ordered) == summary["planned"] and not came.interrupted,
        ended_by=came.ended_by,
        episode_table_digest=digest([episode.to_json() for episode in ordered]),
        merkle_root=manifests.merkle_root(folders.read_leaves(came.folder, ordered)),
        signatures=[],
        exclusions=[],
    )
