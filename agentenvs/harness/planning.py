"""What a run is asked for, and the episodes that come of it, before the first is played."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentenvs.client import TicketEnv
from agentenvs.client.remote import same_release
from agentenvs.client.ticket import Standing
from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError, OptionError, PolicyError
from agentenvs.core.playable import Playable
from agentenvs.core.policy import Policy, Privileged
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.core.task import TaskRef
from agentenvs.harness.budget import Budget
from agentenvs.harness.policies import PolicyFactory, resolve
from agentenvs.harness.program import is_program, programs
from agentenvs.harness.stage import Stage

if TYPE_CHECKING:
    import httpx

    from agentenvs.client import ClientSettings

RewardVisible = Literal["none", "true", "flipped", "random"]

ENDLESS_EPISODES = 100
"""Episodes of a run on an endless split where none are asked for."""

MOST_EPISODES = 1_000_000
"""Of one run: its plan names each."""

LAST_INDEX = 2**63 - 1
"""Of a scenario that a run plays: tables and indexes of runs hold numbers of 64 bits."""


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
    trials: int = 1
    """How often each scenario is played, every time from the start."""
    budget: Budget = field(default_factory=Budget)
    """What the run may use; where it has, it starts no more episodes."""
    settings: Any = None
    """Settings of the ``openai`` policy, or of the proxy that gives a program its model."""
    backend: Literal["local", "ray"] = "local"
    """Where episodes are played: in threads of this process, or on a cluster."""
    address: str | None = None
    """Of the cluster; one of this machine alone is made where None."""
    url: str | None = None
    """The server whose environment is played; that of this process where None."""
    token: str | None = field(default=None, repr=False)
    """What the server asks of its clients; that of ``AGENTENVS_TOKEN`` where None."""
    ticket: str | None = field(default=None, repr=False)
    """Opens sealed scenarios of the server, one after another, for whoever has no token."""
    client: ClientSettings | None = None
    """Patience with the server."""
    transport: httpx.BaseTransport | None = field(default=None, repr=False)
    """What carries the requests to the server instead of a connection."""

    def stage(self) -> Stage:
        """Return where the environment is played.

        Raises:
            UserError: Some subclass: it cannot be played there.
        """
        return Stage(
            self.env,
            self.url,
            token=self.token,
            settings=self.client,
            transport=self.transport,
            ticket=self.ticket,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The episodes of a run, before the first is played."""

    stage: Stage
    split: SplitSpec
    indices: tuple[int, ...]
    """Of each episode, in order of number: all scenarios once, then all again for each further trial."""
    factory: PolicyFactory
    options: dict[str, JSON]
    """Every option of the environment that belongs to the episodes, with its value."""
    budgets: dict[str, int]

    @property
    def given_out(self) -> bool:
        """Whether a server decides which scenario comes next, each once: ``indices`` only count them then."""
        return self.split.sealed and self.stage.url is not None

    @property
    def spec(self) -> EnvSpec:
        """What the environment says of itself."""
        return self.stage.spec

    def workers(self, config: RunConfig) -> int:
        """Return how many workers play it: one for a stream, else as many as asked for and of use."""
        return 1 if config.order is not None else min(config.concurrency, len(self.indices))


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
        split, count = _split(env, config), config.episodes
        if split.sealed and config.url is not None:
            _check_sealed(config, stage)
        if isinstance(env, TicketEnv):
            count = _of_ticket(env.standing, config)
        indices = _indices(replace(config, episodes=count), split)
        for index in (indices[0], indices[-1]):
            env.check_ref(TaskRef(split.name, index))
        options, budgets = env.public_options(), env.declared_budgets()
    finally:
        env.close()
    return Plan(stage, split, indices, _factory(config, spec), options, budgets)


def _factory(config: RunConfig, spec: EnvSpec) -> PolicyFactory:
    if is_program(config.policy):
        return programs(config.policy, config.url, config.episode_seconds, config.settings)
    return resolve(config.policy, spec, config.settings)


def _check(config: RunConfig) -> None:
    if config.ticket is not None and config.concurrency != 1:
        raise ConfigError("a ticket opens one scenario at a time", fix="leave out --concurrency")
    if config.concurrency < 1:
        raise ConfigError(f"concurrency {config.concurrency} makes no sense", fix="give 1 or more")
    if config.trials < 1:
        raise ConfigError(f"{config.trials} trials make no run", fix="give 1 or more")
    if config.order is not None and config.trials != 1:
        raise ConfigError("a stream plays what its order says", fix="leave out --trials")
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


def _check_sealed(config: RunConfig, stage: Stage) -> None:
    """Refuse what the server decides of a sealed split: which scenario comes next, once, and with what options.

    Raises:
        ConfigError: The run asks for it.
    """
    asked = {
        "--start": config.start != 0,
        "--trials": config.trials != 1,
        "--stream": config.order is not None and config.order != tuple(range(len(config.order))),
        "-o": bool(set(config.options) - set(stage.machine_options(config.options))),
    }
    if wrong := [flag for flag, given in asked.items() if given]:
        raise ConfigError(
            f"{wrong[0]} has no place on a sealed split",
            why="its server gives out the scenarios, each once, with its own options",
            fix="leave it out",
        )


def served_sealed(stage: Stage, split: str | None) -> bool:
    """Return whether a server would give out the scenarios of a run, with its own options."""
    if stage.url is None or stage.ticket is not None:
        return stage.ticket is not None
    env = stage.make({})
    try:
        found = env.splits().get(split or env.spec.eval_split or env.spec.default_split)
        return found is not None and found.sealed
    finally:
        env.close()


def check_player(config: RunConfig, planned: Plan, policy: Policy) -> None:
    """Refuse what does not go with a player behind a wire.

    Raises:
        PolicyError: It must be shown the scenario, and that is sealed.
        UnknownEnvError: It must be shown the scenario, and the environment is not installed here.
        OptionError: It need not, and there are options for the world here.
    """
    if config.url is None:
        return
    if planned.given_out and isinstance(policy, Privileged):
        raise PolicyError(
            f"{config.policy!r} cannot play a sealed split on a server",
            why="it must be shown the scenario, which is shown to nobody",
            fix="play another split, or where the secret is: without --url",
        )
    if isinstance(policy, Privileged):
        same_release(planned.spec)
    elif machine := planned.stage.machine_options(config.options):
        raise OptionError(
            f"the option {machine[0]!r} has no effect here",
            why="the server plays its own; only a player that is shown the scenario needs the same world here",
            fix="leave it out",
        )


def _of_ticket(standing: Standing, config: RunConfig) -> int:
    """Return how many scenarios of a ticket are to be played.

    Raises:
        ConfigError: None is left, or not so many.
    """
    if standing.left == 0:
        why = f"it opened {standing.opened} of {standing.planned} scenarios"
        raise ConfigError(f"nothing is left of the ticket {standing.ticket}", why=why)
    if (count := config.episodes or standing.left) > standing.left:
        raise ConfigError(f"the ticket has {standing.left} scenarios left, not {count}", fix="leave out --episodes")
    return count


def _split(env: Playable, config: RunConfig) -> SplitSpec:
    spec = env.spec
    name = config.split or spec.eval_split or spec.default_split
    if isinstance(env, TicketEnv):
        name = env.standing.split
        if config.split not in (None, name):
            raise ConfigError(f"the ticket is for the split {name!r}", fix="leave out --split")
    env.check_ref(TaskRef(name, 0))
    return env.splits()[name]


def _must_be_few(config: RunConfig) -> None:
    count = (config.episodes or 1) * config.trials
    if count > MOST_EPISODES:
        raise ConfigError(f"{count:,} episodes are too many for one run", fix=f"play at most {MOST_EPISODES:,} in each")
    if config.start + count > LAST_INDEX:
        raise ConfigError(
            f"index {config.start} is too large",
            why="tables and indexes of runs hold numbers of 64 bits",
            fix=f"stay below {LAST_INDEX}",
        )


def _indices(config: RunConfig, split: SplitSpec) -> tuple[int, ...]:
    if config.order is not None:
        if not config.order:
            raise ConfigError("the order of the stream is empty", fix="give at least one index")
        if split.size is not None and not all(0 <= index < split.size for index in config.order):
            raise ConfigError(f"the order names indices that split {split.name!r} does not have")
        if (config.episodes or 0) > len(config.order):
            raise ConfigError(f"the order names {len(config.order)} episodes, not {config.episodes}")
        return config.order[: config.episodes]
    _must_be_few(config)
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
    return tuple(range(config.start, config.start + count)) * config.trials
