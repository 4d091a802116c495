"""A run's configuration: one TOML file, read into frozen dataclasses, with every mistake named.

``--set table.name=value`` changes single settings; the resolved configuration is written into the run's folder and is
what ``--resume`` reads.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentenvs.core.errors import ConfigError
from agentenvs.train.engine.learner import LearnerConfig
from agentenvs.train.engine.lora import LoraConfig
from agentenvs.train.engine.remote import ServersConfig
from agentenvs.train.engine.torch_engine import SamplerConfig
from agentenvs.train.models import Shape
from agentenvs.train.plugins import at_least, configured
from agentenvs.train.rollout import RolloutConfig
from agentenvs.train.worlds import WorldConfig


@dataclass(frozen=True)
class ModelConfig:
    """Where the model comes from."""

    folder: str | None = None
    """A folder of Hugging Face's; a model of random weights where None."""
    vocabulary: int = 512
    """Of a tokenizer made from what the environments say, where there is no folder."""
    template: str = "auto"
    """``plain``, ``chat``, or the tokenizer's own chat template where it has one."""
    device: str = "cpu"
    threads: int = 0
    """Of PyTorch on a CPU; as it is where 0."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        at_least(self, 1, "vocabulary")
        at_least(self, 0, "threads")


@dataclass(frozen=True)
class CloneConfig:
    """Cloning of a demonstrator, before anything else."""

    demonstrations: int = 0
    """None where 0."""
    policy: str = "expert"
    """A player of the worlds; the oracle plays for the expert where a world has none."""
    first: int = 1_000_000
    """Index of the first scenario that is demonstrated."""
    batch: int = 8
    """Demonstrations an update."""
    updates: int = 500
    lr: float = 3e-3
    observations: float = 0.2
    """What an observation's token weighs beside an action's."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        at_least(self, 0, "demonstrations", "first", "updates", "lr", "observations")
        at_least(self, 1, "batch")


@dataclass(frozen=True)
class EvaluationConfig:
    """Evaluation on scenarios of their own."""

    every: int = 10
    """Steps between evaluations; none where 0. The end of a run is evaluated too."""
    start: bool = True
    """Whether the model is evaluated before the first step."""
    split: str = "dev"
    first: int = 0
    count: int = 100
    greedy: bool = False

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        at_least(self, 0, "every", "first")
        at_least(self, 1, "count")


@dataclass(frozen=True)
class LagConfig:
    """How far the sampler's weights may be behind."""

    lag: int = 0
    """Versions the sampler is kept behind on purpose; drawn from 0 to this at each step where ``random``."""
    random: bool = False
    max_lag: int = 8
    """Episodes with older tokens are dropped and counted."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        at_least(self, 0, "lag", "max_lag")


@dataclass(frozen=True)
class SaveConfig:
    """Checkpoints."""

    every: int = 20
    keep: int = 2

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        at_least(self, 0, "every")
        at_least(self, 1, "keep")


@dataclass(frozen=True)
class TrainConfig:
    """A run."""

    name: str
    worlds: Mapping[str, WorldConfig]
    seed: int = 0
    steps: int = 100
    budget_cpu: float = 0.0
    """CPU seconds of steps after which no further one is begun; without end where 0. Evaluations do not count. How many
    steps that are depends on the machine."""
    method: str = "grpo"
    method_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of the method's plug-ins by their names."""
    sampler: Mapping[str, Any] = field(default_factory=dict)
    signals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    library: Mapping[str, Any] = field(default_factory=dict)
    """``name`` and settings of what is kept from episode to episode; the method's own where it has one."""
    wrapper: Mapping[str, Any] = field(default_factory=dict)
    """``name`` and settings of what the policy acts through in evaluations."""
    model: ModelConfig = field(default_factory=ModelConfig)
    shape: Shape = field(default_factory=Shape)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    slots: SamplerConfig = field(default_factory=SamplerConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    servers: ServersConfig = field(default_factory=ServersConfig)
    clone: CloneConfig = field(default_factory=CloneConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    lag: LagConfig = field(default_factory=LagConfig)
    save: SaveConfig = field(default_factory=SaveConfig)
    max_gap: float = 0.05
    """The largest mean difference between the sampler's and the trainer's log-probabilities at the first update of a
    step, in nats a token, where both have the same weights; a larger one stops the run."""

    tensorboard: bool = False
    """Whether metrics are written for TensorBoard too."""

    def __post_init__(self) -> None:
        """Refuse settings that do not go together."""
        at_least(self, 0, "seed", "steps", "budget_cpu", "max_gap")
        length = self.slots.max_length
        if self.rollout.max_length > length:
            raise ValueError(f"rollout.max_length is {self.rollout.max_length}, above slots.max_length of {length}")
        if self.learner.token_budget < length:
            raise ValueError(f"learner.token_budget is {self.learner.token_budget}, below slots.max_length of {length}")
        if self.lag.lag >= self.slots.keep_versions and self.lag.lag:
            raise ValueError(f"lag.lag is {self.lag.lag}: slots.keep_versions must be {self.lag.lag + 1} or more")
        if self.servers.urls and self.rollout.constrained:
            raise ValueError("servers.urls do not sample among the legal actions: leave out rollout.constrained")
        if not any(world.weight for world in self.worlds.values()):
            raise ValueError("no world has a weight")

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; :func:`from_form` reads it."""
        return asdict(self)


_TABLES: Mapping[str, type[Any]] = {
    "model": ModelConfig,
    "shape": Shape,
    "rollout": RolloutConfig,
    "slots": SamplerConfig,
    "learner": LearnerConfig,
    "lora": LoraConfig,
    "servers": ServersConfig,
    "clone": CloneConfig,
    "evaluation": EvaluationConfig,
    "lag": LagConfig,
    "save": SaveConfig,
}


def read(path: Path, changes: Sequence[str] = ()) -> TrainConfig:
    """Read a configuration file.

    Args:
        path: A TOML file.
        changes: ``table.name=value`` each; the value is TOML, or a plain word.

    Raises:
        ConfigError: It is not there, is no TOML, or says something that makes no sense.
    """
    try:
        form = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read", why=error.strerror or str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML", why=str(error)) from error
    for change in changes:
        _change(form, change)
    form.setdefault("name", path.stem)
    return from_form(form)


def from_form(form: Mapping[str, Any]) -> TrainConfig:
    """Make a configuration of what a file says.

    Raises:
        ConfigError: It says something that makes no sense.
    """
    taken: dict[str, Any] = dict(form)
    worlds = taken.pop("worlds", None)
    if not isinstance(worlds, Mapping) or not worlds:
        fix = 'add a table [worlds.household] with env = "household"'
        raise ConfigError("the configuration names no world", fix=fix)
    taken["worlds"] = {name: configured(WorldConfig, one, f"worlds.{name}") for name, one in worlds.items()}
    for name, kind in _TABLES.items():
        if name in taken:
            taken[name] = configured(kind, taken[name], name)
    return configured(TrainConfig, taken, "the configuration")


def _change(form: dict[str, Any], change: str) -> None:
    where, equals, text = change.partition("=")
    if not equals or not where:
        raise ConfigError(f"--set {change} changes nothing", fix="write table.name=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *tables, name = where.split(".")
    for table in tables:
        form = form.setdefault(table, {})
        if not isinstance(form, dict):
            raise ConfigError(f"--set {change}: {table} is no table")
    form[name] = value
