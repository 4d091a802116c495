"""Evaluation during a run: scenarios that are not trained on, each played once, success with an interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentenvs.core.errors import ConfigError
from agentenvs.core.task import TaskRef
from agentenvs.train.config import EvaluationConfig, TrainConfig
from agentenvs.train.interfaces import Assignment, PolicyWrapper
from agentenvs.train.records import Episode
from agentenvs.train.rollout import Rollouts
from agentenvs.train.trainer import described, playable
from agentenvs.train.wrapping import Through
from agentenvs_scoring.stats import wilson

EVALUATION_STEP = 1 << 40
"""Added to the step, so that no evaluation shares the chance of a rollout."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an evaluation found."""

    episodes: list[Episode]
    metrics: Mapping[str, float]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row an episode, so that evaluations can be compared scenario by scenario."""
        return [
            {
                "world": one.env,
                "split": one.ref.split,
                "index": one.ref.index,
                "success": one.success,
                "return": one.outcome,
                "turns": len(one.turns),
                "ending": one.ending,
            }
            for one in self.episodes
        ]


def disjoint(config: TrainConfig) -> None:
    """Refuse an evaluation on scenarios that are trained on or demonstrated.

    Raises:
        ConfigError: A range of the evaluation meets one of training, in the same split.
    """
    asked = config.evaluation
    for name, world in config.worlds.items():
        if not asked.every or world.split != asked.split:
            continue
        ranges = [(world.first, None if world.count is None else world.first + world.count)]
        if config.clone.demonstrations:
            ranges.append((config.clone.first, config.clone.first + config.clone.demonstrations))
        for begin, end in ranges:
            if asked.first < (end if end is not None else asked.first + 1) and begin < asked.first + asked.count:
                raise ConfigError(
                    f"{name} is evaluated on scenarios of {asked.split} that are trained on",
                    fix="choose another split for the evaluation, or ranges that do not meet",
                )


def evaluate(
    rollouts: Rollouts,
    worlds: Iterable[str],
    asked: EvaluationConfig,
    step: int,
    wrapper: PolicyWrapper | None = None,
) -> Evaluated:
    """Play the scenarios of an evaluation.

    Args:
        rollouts: Plays.
        worlds: Names of the worlds.
        asked: Settings.
        step: Of the run.
        wrapper: What the policy acts through.

    Raises:
        ServiceError: All episodes were lost.
        ConfigError: None had room for a turn.
    """
    assignments = [
        Assignment(name, TaskRef(asked.split, asked.first + place))
        for name in sorted(worlds)
        for place in range(asked.count)
    ]
    sampling = rollouts.sampling()
    if asked.greedy:
        sampling = replace(sampling, temperature=0.0)
    if wrapper is not None:
        through = Through(wrapper, rollouts.worlds)
        rollouts = replace(rollouts, hooks=[*rollouts.hooks, through], admissible=True)
    episodes = rollouts.play(assignments, 1, EVALUATION_STEP + step, sampling=sampling)
    playable(episodes)
    count, wins = len(episodes), sum(episode.success for episode in episodes)
    low, high = wilson(wins, count)
    found = {f"eval_{name}": value for name, value in described(episodes).items() if not name.startswith("seconds")}
    if wrapper is not None:
        found |= {f"eval_{wrapper.name}_{name}": value for name, value in wrapper.metrics().items()}
    return Evaluated(episodes, {**found, "eval_low": low, "eval_high": high})
