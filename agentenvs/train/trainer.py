"""The loop: plan, play, judge, learn, publish, write down.

One step draws scenarios, plays their groups, drops what is too old or lost, lets signals and credit write advantages,
takes the optimizer's steps and publishes the weights. All chance comes from the seed and the step, so a step is the
same after a restart; what is carried from step to step lies in a checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentenvs.core.errors import ConfigError, ServiceError, UserError
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.train.batch import Batch
from agentenvs.train.config import TrainConfig
from agentenvs.train.interfaces import Assignment, Plan
from agentenvs.train.pipeline import Pipeline
from agentenvs.train.records import Episode
from agentenvs.train.rollout import Rollouts

REDRAWS = 4
"""How many times the groups of a step may be drawn again because their outcomes tell nothing."""


class DriftError(UserError):
    """The sampler and the trainer disagree about the same tokens under the same weights.

    Stale weights, a mask that is shifted, another precision or a template that is not exact look like this.
    """

    code = "AE130"


@dataclass(slots=True)
class Step:
    """What a step did."""

    number: int
    episodes: list[Episode]
    metrics: dict[str, float] = field(default_factory=dict)


class Trainer:
    """Trains; :func:`agentenvs.train.run.train` wraps it with folders and progress.

    Args:
        config: The run's.
        engine: What samples, scores and trains.
        rollouts: Plays.
        pipeline: The method.
    """

    def __init__(self, config: TrainConfig, engine: Any, rollouts: Rollouts, pipeline: Pipeline) -> None:
        self.config, self.engine, self.rollouts, self.pipeline = config, engine, rollouts, pipeline
        self.number = 0
        self._groups = 0
        over: Callable[..., None] | None = getattr(pipeline.sampler, "over", None)
        if over is not None:
            over(config.worlds, config.seed)

    def step(self) -> Step:
        """Do one step.

        Raises:
            DriftError: Sampler and trainer disagree.
        """
        plan = self.pipeline.sampler.plan(self.number)
        self._lag()
        start, sampled = time.perf_counter(), self.rollouts.model_seconds
        episodes, played, metrics = self._collect(plan)
        playable(played)
        metrics["seconds_rollout"] = time.perf_counter() - start
        metrics["seconds_model"] = self.rollouts.model_seconds - sampled
        step = Step(self.number, episodes, metrics)
        kept = [episode for episode in episodes if self._kept(episode)]
        metrics |= described(played) | {"dropped": float(len(episodes) - len(kept))}
        start = time.perf_counter()
        if kept:
            metrics |= self._learn(kept, plan)
        metrics["seconds_train"] = time.perf_counter() - start
        self.pipeline.sampler.observe(played)
        if self.pipeline.library is not None:
            ended = [episode for episode in played if episode.lost is None]
            metrics["library_version"] = float(self.pipeline.library.learn(ended))
        self.number += 1
        return step

    def state_dict(self) -> dict[str, Any]:
        """Return what is carried from step to step, beside the engine's."""
        return {"number": self.number, "groups": self._groups, "pipeline": self.pipeline.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what :meth:`state_dict` returned."""
        self.number, self._groups = state["number"], state["groups"]
        self.pipeline.load_state_dict(state["pipeline"])

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _lag(self) -> None:
        """Let the sampler use older weights, where that is asked for."""
        lag = self.config.lag
        behind = lag.lag
        if lag.random and lag.lag:
            behind = Stream(scenario_key("train", "lag", self.config.seed), f"step {self.number}").below(lag.lag + 1)
        self.engine.use(self.engine.version - behind)

    def _collect(self, plan: Plan) -> tuple[list[Episode], list[Episode], dict[str, float]]:
        """Play groups until enough are worth training on, or they have been drawn too often.

        Returns:
            The episodes of groups that are trained on, all that were played, and metrics.
        """
        sampler = self.pipeline.sampler
        taken: list[Episode] = []
        every: list[Episode] = []
        groups = drawn = 0
        for _ in range(REDRAWS):
            wanted = plan.groups - groups
            if wanted <= 0:
                break
            assignments: Sequence[Assignment] = sampler.draw(wanted, self.number)
            played = self.rollouts.play(
                assignments, plan.group_size, self.number, horizon=plan.horizon, first_group=self._groups
            )
            self._groups += wanted
            drawn += wanted
            every += played
            for begin in range(0, len(played), plan.group_size):
                group = played[begin : begin + plan.group_size]
                if sampler.admit(group):
                    taken += group
                    groups += 1
        return taken, every, {"groups": float(groups), "groups_drawn": float(drawn)}

    def _kept(self, episode: Episode) -> bool:
        fresh = self.engine.version - episode.oldest <= self.config.lag.max_lag
        return episode.lost is None and episode.tokens > 0 and fresh

    def _learn(self, episodes: list[Episode], plan: Plan) -> dict[str, float]:
        batch = Batch(episodes, self.engine.version)
        metrics: dict[str, float] = {}
        for signal in self.pipeline.signals:
            metrics |= {f"{signal.name}_{name}": value for name, value in signal.compute(episodes, self.engine).items()}
        for credit in self.pipeline.credits:
            credit.apply(batch)
        metrics |= batch.metrics | advantages(batch)
        for signal in self.pipeline.signals:
            metrics |= {f"{signal.name}_{name}": value for name, value in signal.learn(batch, self.engine).items()}
        rows = list(range(len(episodes)))
        behind = self.engine.version != self.engine.used
        if plan.minibatches * plan.epochs > 1 or behind:
            self.engine.annotate(batch, rows, "logp_old")
        updates = []
        for epoch in range(plan.epochs):
            for part in self._parts(rows, plan.minibatches, epoch):
                updates.append(self.engine.train(batch, self.pipeline.loss, part, plan.lr_scale))
        if not np.isfinite(updates[0].metrics["gap"]):
            raise DriftError(
                "log-probabilities are no numbers any more",
                why="the weights are not",
                fix="lower learner.lr, and resume from the last checkpoint or begin again",
            )
        if not behind and updates[0].metrics["gap"] > self.config.max_gap:
            raise DriftError(
                f"sampler and trainer differ by {updates[0].metrics['gap']:.3f} nats a token",
                why="they had the same weights, so one of them scored other tokens, or in another precision",
                fix="see that the template is exact and the precisions are the same, or raise max_gap",
            )
        self.engine.publish()
        metrics |= {name: updates[0].metrics[name] for name in ("gap",)}
        for name in sorted({name for update in updates for name in update.metrics} - {"gap"}):
            metrics[name] = float(np.mean([update.metrics.get(name, 0.0) for update in updates]))
        metrics["loss"] = float(np.mean([update.loss for update in updates]))
        metrics["gradient_norm"] = float(np.mean([update.gradient_norm for update in updates]))
        metrics["tokens_trained"] = float(sum(update.tokens for update in updates))
        return metrics

    def _parts(self, rows: list[int], count: int, epoch: int) -> list[list[int]]:
        """Cut the episodes into minibatches, shuffled by seed, step and epoch."""
        if count == 1:
            return [rows]
        stream = Stream(scenario_key("train", "minibatches", self.config.seed), f"step {self.number} epoch {epoch}")
        shuffled = list(rows)
        stream.shuffle(shuffled)
        size = -(-len(rows) // count)
        return [sorted(shuffled[begin : begin + size]) for begin in range(0, len(rows), size)]


def playable(episodes: Sequence[Episode]) -> None:
    """Refuse to go on where nothing can be played.

    Raises:
        ServiceError: All episodes were lost.
        ConfigError: None had room for a turn.
    """
    ended = [episode for episode in episodes if episode.lost is None]
    if episodes and not ended:
        raise ServiceError(
            f"all {len(episodes)} episodes were lost",
            why=str(episodes[0].lost),
            fix="see to the environment or its server, then resume the run",
        )
    if ended and not any(episode.turns for episode in ended):
        raise ConfigError("no episode has room for a turn", fix="raise rollout.max_length and slots.max_length")


def described(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return what a log says of some episodes; lost ones count as failures of their world, and are counted."""
    turns = [turn for episode in episodes for turn in episode.turns]
    found = {
        "episodes": float(len(episodes)),
        "success": _mean([float(episode.success) for episode in episodes]),
        "return": _mean([episode.outcome for episode in episodes]),
        "turns": _mean([float(len(episode.turns)) for episode in episodes]),
        "valid": _mean([float(turn.valid) for turn in turns]),
        "lost": float(sum(episode.lost is not None for episode in episodes)),
        "truncated": _mean([float(episode.ending == "truncated") for episode in episodes]),
        "tokens_sampled": float(sum(turn.length for turn in turns)),
        "seconds_env": float(sum(episode.env_seconds for episode in episodes)),
    }
    groups: dict[tuple[str, int], list[float]] = {}
    for episode in episodes:
        groups.setdefault((episode.env, episode.group), []).append(episode.outcome)
    if any(len(outcomes) > 1 for outcomes in groups.values()):
        found["groups_informative"] = _mean([float(len(set(outcomes)) > 1) for outcomes in groups.values()])
    for world in sorted({episode.env for episode in episodes}):
        mine = [episode for episode in episodes if episode.env == world]
        found[f"success/{world}"] = _mean([float(episode.success) for episode in mine])
    return found


def advantages(batch: Batch) -> dict[str, float]:
    """Return how much of a batch has something to learn from."""
    flat = batch.flat()
    return {"advantage_cover": float(np.mean(flat != 0)) if len(flat) else 0.0, "advantage_mean": _mean(flat)}


def _mean(values: Sequence[float] | Any) -> float:
    return float(np.mean(values)) if len(values) else 0.0
