"""The seven plug-in interfaces.

====================  ============================================================================================
:class:`TaskSampler`  which scenarios, how often, and which groups are worth training on
:class:`RolloutHook`  what is put into the context, and whether an action is played as it is
:class:`Signal`       numbers of turns and tokens computed after the rollout (a teacher, a reference, a critic)
:class:`Credit`       signals and outcomes to an advantage a token
:class:`Loss`         advantages and log-probabilities to a loss
:class:`Library`      what is kept from episode to episode: skills, memory, graphs
:class:`PolicyWrapper`  how a trained policy acts when it is evaluated
====================  ============================================================================================

Names are chosen in a configuration; each registry is here. The engine, which samples, scores and trains, is no
plug-in: :class:`Engine` says what it can do.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from agentenvs.core.observation import Observation
from agentenvs.core.policy import Policy
from agentenvs.core.task import TaskRef
from agentenvs.train.batch import Batch
from agentenvs.train.plugins import Plugin, Registry
from agentenvs.train.records import Candidates, Episode, Floats, Turn

if TYPE_CHECKING:
    import torch

Aggregation = Literal["token-mean", "sequence-mean", "constant", "response-sum"]
"""How the losses of tokens become one number: the mean over all tokens; the mean over episodes of the mean over their
tokens; the sum over tokens divided by a constant length and the number of episodes; the mean over episodes of the sum
over their tokens."""


# ---- the engine ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn.

    Raises:
        ValueError: A number makes no sense.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.0
    max_tokens: int = 32
    """The most tokens of a turn."""
    stop: tuple[int, ...] = ()
    """Ids that end a turn; the id itself is sampled and trained on."""
    forced_end: int | None = None
    """Appended where a turn is cut at ``max_tokens``; not trained on."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.temperature < 0 or not 0 < self.top_p <= 1 or not 0 <= self.min_p < 1 or self.max_tokens < 1:
            raise ValueError(f"{self} cannot be sampled with")


@dataclass(slots=True)
class Draw:
    """A turn that is to be sampled."""

    ids: Sequence[int]
    """The whole prefix. What extends the prefix last sampled in the same slot is not computed again."""
    slot: int
    """Which conversation it belongs to."""
    seed: int
    """Of this turn's draws, so that a rollout replays whatever is sampled beside it."""
    legal: Sequence[Sequence[int]] | None = None
    """Token sequences one of which is to be sampled, each with its end; None where all are legal."""


@dataclass(slots=True)
class Sampled:
    """A turn that was sampled."""

    ids: list[int]
    logps: list[float]
    """Log-probability of each token under the distribution it was drawn from: after constraints, temperature one."""
    forced: list[int] = field(default_factory=list)
    candidates: list[npt.NDArray[np.int32] | None] | None = None


@dataclass(slots=True)
class Update:
    """What an update did; all means are over trained tokens."""

    loss: float
    gradient_norm: float
    tokens: int
    metrics: dict[str, float] = field(default_factory=dict)


class Engine(Protocol):
    """What samples, scores and trains. Prefixes and positions are token ids; no text comes in or goes out."""

    version: int
    """The version of the weights that :meth:`sample` uses; counted by :meth:`publish`."""
    provides: frozenset[str]
    """Fields it adds to a rollout beside log-probabilities and versions."""

    def sample(self, draws: Sequence[Draw], sampling: Sampling) -> list[Sampled]:
        """Sample a turn for each prefix."""

    def release(self, slots: Sequence[int]) -> None:
        """Forget the prefixes of some slots."""

    def score(
        self,
        ids: Sequence[npt.NDArray[np.int32]],
        which: str = "now",
        candidates: Sequence[Candidates | None] | None = None,
    ) -> list[Floats]:
        """Return the log-probability of each token behind its prefix, 0 for the first.

        Args:
            ids: Sequences.
            which: Whose weights: ``now``, or a snapshot's name (:meth:`keep`).
            candidates: Of each sequence: what its tokens were sampled among, as :attr:`Segment.candidates` has it, so
                that what is compared with the sampler's log-probabilities is of the same distribution.
        """

    def keep(self, name: str) -> None:
        """Keep the weights as they are under a name, for :meth:`score`."""

    def take(self, name: str, model: Any) -> None:
        """Keep another model under a name, for :meth:`score`."""

    def keeps(self, name: str) -> bool:
        """Return whether something is kept under a name."""

    def train(self, batch: Batch, loss: Loss, rows: Sequence[int]) -> Update:
        """Take one optimizer step on some episodes of a batch."""

    def publish(self) -> int:
        """Make the trained weights those that :meth:`sample` uses, and return their version."""

    def copied(self) -> Any:
        """Return a copy of the model as it is now; a critic begins as its first blocks."""

    def save(self, folder: Path) -> None:
        """Write weights, optimizer and random states."""

    def load(self, folder: Path) -> None:
        """Read what :meth:`save` wrote; the next step is the one that would have followed."""


# ---- the plug-ins --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assignment:
    """A scenario to be played."""

    env: str
    """Name of the environment in the mixture."""
    ref: TaskRef


@dataclass(frozen=True, slots=True)
class Plan:
    """What one step of training does."""

    groups: int
    group_size: int
    minibatches: int = 1
    """Optimizer steps an epoch."""
    epochs: int = 1
    lr_scale: float = 1.0
    horizon: int | None = None
    """The most turns of an episode; the environment's own limit where None."""


class TaskSampler(Plugin):
    """Which scenarios are played, how often, and which groups are worth training on."""

    @abstractmethod
    def plan(self, step: int) -> Plan:
        """Return what the next step does."""

    @abstractmethod
    def draw(self, count: int, step: int) -> list[Assignment]:
        """Return the scenarios of the next groups; the same state and step give the same."""

    def admit(self, group: Sequence[Episode]) -> bool:
        """Return whether a group is trained on; others are counted and drawn again, up to a cap."""
        return True

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Take note of episodes that ended."""


class RolloutHook(Plugin):
    """Steps into a rollout.

    Attributes:
        library: What the run keeps from episode to episode; None where it keeps nothing.
    """

    library: Library | None = None

    def begin(self, episode: Episode, observation: Observation) -> str:
        """Return text to be put before the first turn; none where empty."""
        return ""

    def before_turn(self, episode: Episode, observation: Observation) -> str:
        """Return text to be put before a turn; none where empty."""
        return ""

    def played(self, episode: Episode, turn: Turn, said: str) -> str:
        """Return the text that is played in place of what was said."""
        return said

    def after_turn(self, episode: Episode, turn: Turn, observation: Observation) -> None:
        """Take note of what a turn did; may write its signals."""

    def end(self, episode: Episode) -> None:
        """Take note of the end."""


class Signal(Plugin):
    """Computes numbers of turns and tokens after the rollout."""

    @abstractmethod
    def compute(self, episodes: Sequence[Episode], engine: Engine) -> dict[str, float]:
        """Write ``turn.signals`` or ``segment.streams``; return metrics."""

    def learn(self, batch: Batch, engine: Engine) -> dict[str, float]:
        """Learn from what credit made of a batch, where the signal is itself trained; return metrics."""
        return {}


class Credit(Plugin):
    """Writes, reweights or normalises advantages; several stand in a pipeline."""

    kind: ClassVar[Literal["estimator", "reweighter", "normaliser"]] = "estimator"
    measure: ClassVar[Literal["token", "episode", "none"]] = "none"
    """Of a normaliser: over what it standardises. One that does not fit the loss's aggregation is warned of: it leaves
    a mean that depends on lengths (SPO++, arXiv 2608.24870)."""

    @abstractmethod
    def apply(self, batch: Batch) -> None:
        """Change ``batch.advantages``; may write metrics."""


@dataclass(slots=True)
class Tokens:
    """The trained tokens of a micro-batch, flat; all tensors have their number, ``n``."""

    logp: torch.Tensor
    """Log-probability now, with gradient."""
    logp_mu: torch.Tensor
    """As sampled."""
    logp_old: torch.Tensor
    """At the start of the update."""
    advantage: torch.Tensor
    episode: torch.Tensor
    """Which episode each belongs to, as numbers from 0 within the micro-batch."""
    turn: torch.Tensor
    """Which turn of its episode."""
    streams: dict[str, torch.Tensor] = field(default_factory=dict)


class Loss(Plugin):
    """From tokens to a loss. How tokens are added up is the engine's affair, and the same for all (aggregation)."""

    aggregation: Aggregation = "token-mean"

    @abstractmethod
    def tokens(self, tokens: Tokens) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the loss of each token, shape ``(n,)``, and numbers a token to be averaged for the log."""


class Library(Plugin):
    """What is kept from episode to episode; every change is a line of a journal, and has a version."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The version of what is kept now."""

    @abstractmethod
    def retrieve(self, task: Assignment, observation: Observation, count: int) -> list[str]:
        """Return texts that fit a task, best first."""

    @abstractmethod
    def learn(self, episodes: Sequence[Episode]) -> int:
        """Take in ended episodes, and return the version they lead to."""


class PolicyWrapper(Plugin):
    """How a trained policy acts when it is evaluated."""

    @abstractmethod
    def wrap(self, policy: Policy) -> Policy:
        """Return a policy that acts through another one."""

    def metrics(self) -> dict[str, float]:
        """Return what it has to tell of its turns so far."""
        return {}


def _discover() -> None:
    """Import what registers itself: the methods, and the sampling of scenarios."""
    for module in ("sampling", "answering"):
        importlib.import_module(f"agentenvs.train.{module}")
    importlib.import_module("agentenvs.train.methods").recipes()


samplers: Registry[TaskSampler] = Registry("task sampler", _discover)
hooks: Registry[RolloutHook] = Registry("rollout hook", _discover)
signals: Registry[Signal] = Registry("signal", _discover)
credits_: Registry[Credit] = Registry("credit", _discover)
losses: Registry[Loss] = Registry("loss", _discover)
libraries: Registry[Library] = Registry("library", _discover)
wrappers: Registry[PolicyWrapper] = Registry("policy wrapper", _discover)


def registries() -> Mapping[str, Registry[Any]]:
    """Return all registries by the word of a configuration."""
    return {
        "sampler": samplers,
        "hook": hooks,
        "signal": signals,
        "credit": credits_,
        "loss": losses,
        "library": libraries,
        "wrapper": wrappers,
    }
