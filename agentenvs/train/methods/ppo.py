"""PPO: a critic's values, and generalised advantages over the policy's tokens.

``d_t = r_t + gamma V_{t+1} - V_t`` and ``A_t = sum_k (gamma lambda)^k d_{t+k}`` (Schulman et al. 2016, equation 16),
over the policy's tokens alone: what follows a token is its next token, whatever the environment said between. A turn's
reward stands on its last token; behind the last token of an episode the value is 0. Targets of the critic are
``V + A``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from agentenvs.train.batch import Array, Batch
from agentenvs.train.interfaces import Credit, Engine, Signal, credits_, signals
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.plugins import at_least
from agentenvs.train.records import Episode

if TYPE_CHECKING:
    from agentenvs.train.engine.critic import Critic


@signals.register
class CriticSignal(Signal):
    """A critic of the engine's model; values of tokens and turns."""

    name = "critic"
    provides = frozenset(("token.value", "turn.value"))

    @dataclass(frozen=True)
    class Config:
        """Settings; see :class:`agentenvs.train.engine.critic.CriticConfig`."""

        layers: int = 2
        lr: float = 1e-3
        clip: float = 0.2
        epochs: int = 2

        def __post_init__(self) -> None:
            """Refuse what makes no sense."""
            at_least(self, 1, "layers", "epochs")
            at_least(self, 0, "lr", "clip")

    config: Config

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._critic: Critic | None = None
        self._saved: Mapping[str, Any] | None = None

    def compute(self, episodes: Sequence[Episode], engine: Engine) -> dict[str, float]:
        """See :class:`Signal`."""
        self._of(engine).annotate(episodes)
        values = [turn.signals["value"] for episode in episodes for turn in episode.turns]
        return {"value": float(np.mean(values)) if values else 0.0}

    def learn(self, batch: Batch, engine: Engine) -> dict[str, float]:
        """See :class:`Signal`."""
        return self._of(engine).learn(batch)

    def _of(self, engine: Engine) -> Critic:
        if self._critic is None:
            from agentenvs.train.engine.critic import Critic, CriticConfig

            config = self.config
            settings = CriticConfig(config.layers, config.lr, config.clip, config.epochs)
            self._critic = Critic(engine.copied(), settings)
            if self._saved:
                self._critic.load_state_dict(self._saved["weights"])
                self._critic.optimizer.load_state_dict(self._saved["optimizer"])
        return self._critic

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Plugin`."""
        if self._critic is None:
            return {}
        return {"weights": self._critic.state_dict(), "optimizer": self._critic.optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`Plugin`."""
        self._saved = state or None


def generalised(rewards: Array, values: Array, gamma: float, decay: float) -> Array:
    """Return generalised advantages; all of shape ``(n,)``. Behind the last the value is 0."""
    found = np.zeros(len(rewards))
    ahead = following = 0.0
    for place in range(len(rewards) - 1, -1, -1):
        delta = rewards[place] + gamma * following - values[place]
        ahead = delta + gamma * decay * ahead
        following = float(values[place])
        found[place] = ahead
    return found


def token_values(episode: Episode) -> tuple[Array, Array, list[tuple[int, int]]]:
    """Return rewards and values of an episode's trained tokens, and where they are: segment and position."""
    places: list[tuple[int, int]] = []
    rewards: list[float] = []
    for turn in episode.turns:
        mask = episode.segments[turn.segment].loss_mask[turn.start : turn.end]
        mine = [(turn.segment, turn.start + int(one)) for one in np.flatnonzero(mask)]
        places += mine
        rewards += [0.0] * len(mine)
        if rewards:
            rewards[-1] += turn.reward
    values = np.array([float(episode.segments[one].streams["value"][place]) for one, place in places])
    return np.array(rewards), values, places


def write_tokens(
    batch: Batch, index: int, places: Sequence[tuple[int, int]], advantages: Array, targets: Array
) -> None:
    """Write advantages and targets of an episode's tokens."""
    for segment in batch.episodes[index].segments:
        segment.streams["value_target"] = np.zeros(len(segment), np.float32)
    for (one, place), advantage, target in zip(places, advantages, targets, strict=True):
        batch.advantages[index][one][place] = advantage
        batch.episodes[index].segments[one].streams["value_target"][place] = target


@credits_.register
class Generalised(Credit):
    """Generalised advantages of tokens."""

    name = "generalised"
    needs = frozenset(("token.value",))
    provides = frozenset(("batch.advantage",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        gamma: float = 1.0
        decay: float = 0.95

    config: Config

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        for index, episode in enumerate(batch.episodes):
            rewards, values, places = token_values(episode)
            found = generalised(rewards, values, self.config.gamma, self.config.decay)
            write_tokens(batch, index, places, found, values + found)


recipe(
    Recipe(
        name="ppo",
        title="PPO with GAE",
        source="Schulman et al. 2017, equation 7; Schulman et al. 2016, equation 16; verl skips observations likewise",
        provenance="exact",
        signals=(("critic", {}),),
        credits=(("generalised", {}), ("standardise-tokens", {})),
        loss=("ppo-clip", {}),
        aggregation="token-mean",
        sampler=("in-order", {"minibatches": 2}),
    )
)
