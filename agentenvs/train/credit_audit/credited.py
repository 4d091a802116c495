"""What each method says of the turns of the same episodes.

Every method gets its own copies of the episodes, all in one update, and its plug-ins afresh. What a method carries from
step to step (a critic, a tracker of scenarios, a graph) first sees other episodes of the same scenarios, played by the
same policy. What a method writes for tokens becomes a number a turn by the mean over the turn's trained tokens: a
method that gives all tokens of a turn the same is taken as it is, and of VETTA, whose tokens differ around their
turn's advantage, it is that advantage.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agentenvs.core.errors import ConfigError
from agentenvs.train import methods
from agentenvs.train.batch import Array, Batch
from agentenvs.train.config import TrainConfig
from agentenvs.train.interfaces import Signal
from agentenvs.train.pipeline import Pipeline, assemble
from agentenvs.train.records import Episode


@dataclass(frozen=True, slots=True)
class Credited:
    """What a method said, or why it said nothing."""

    method: str
    values: Sequence[Array]
    """By episode, one number a turn; NaN of a turn without trained tokens. Empty where ``missing``."""
    missing: str = ""
    same_as: str = ""
    """A method before it that said the same of every turn."""


def credit(
    config: TrainConfig,
    engine: Any,
    episodes: Sequence[Episode],
    rounds: Sequence[Sequence[Episode]],
    names: Sequence[str],
    provided: frozenset[str],
    passes: int = 4,
    tell: Callable[[str], None] = lambda said: None,
) -> list[Credited]:
    """Ask methods for the advantages of turns.

    Args:
        config: The run's; settings of its own method's plug-ins are kept.
        engine: For signals.
        episodes: Those that are asked about.
        rounds: Episodes that come before, for what methods carry.
        names: Methods.
        provided: Fields that worlds and engine provide.
        passes: How often trained signals go over each round.
        tell: For progress.
    """
    found: list[Credited] = []
    for name in names:
        tell(f"asking {name}")
        settings = config.method_settings if name == config.method else {}
        try:
            pipeline = _assembled(replace(config, method=name, method_settings=settings, sampler={}), provided)
            values = asked(pipeline, engine, episodes, rounds, passes)
        except ConfigError as error:
            found.append(Credited(name, (), missing=" ".join(filter(None, (error.what, error.why)))))
            continue
        if not any(np.nan_to_num(one).any() for one in values):
            why = "it gave every turn nothing" if pipeline.credits else "it has no credit: its loss needs no advantage"
            found.append(Credited(name, (), missing=why))
            continue
        twin = next((one.method for one in found if one.values and _same(one.values, values)), "")
        found.append(Credited(name, values, same_as=twin))
    return found


def asked(
    pipeline: Pipeline, engine: Any, episodes: Sequence[Episode], rounds: Sequence[Sequence[Episode]], passes: int
) -> list[Array]:
    """Return what a pipeline says of the turns of episodes, after it has seen some rounds."""
    for earlier in rounds:
        batch = _credited(pipeline, engine, earlier)
        trained = [one for one in pipeline.signals if type(one).learn is not Signal.learn]
        for _ in range(passes if trained else 0):
            for signal in trained:
                signal.learn(batch, engine)
                signal.compute(batch.episodes, engine)
            for one in pipeline.credits[:1]:
                one.apply(batch)
    return [turn_values(batch, index) for batch in (_credited(pipeline, engine, episodes),) for index in _rows(batch)]


def turn_values(batch: Batch, index: int) -> Array:
    """Return the mean advantage of the trained tokens of each turn; NaN where there are none; shape ``(turns,)``."""
    episode = batch.episodes[index]
    found = np.full(len(episode.turns), np.nan)
    for place, turn in enumerate(episode.turns):
        span = slice(turn.start, turn.end)
        mask = episode.segments[turn.segment].loss_mask[span]
        if mask.any():
            # Advantages are float32: rounded back, the mean of equal ones is what they are.
            found[place] = np.float32(batch.advantages[index][turn.segment][span][mask].astype(np.float64).mean())
    return found


def _rows(batch: Batch) -> range:
    return range(len(batch.episodes))


def _credited(pipeline: Pipeline, engine: Any, episodes: Sequence[Episode]) -> Batch:
    copies = [_copy(episode) for episode in episodes]
    for signal in pipeline.signals:
        signal.compute(copies, engine)
    batch = Batch(copies, engine.version)
    for one in pipeline.credits:
        one.apply(batch)
    return batch


def _copy(episode: Episode) -> Episode:
    """Return an episode on which signals may write."""
    return replace(
        episode,
        segments=[replace(one, streams={}) for one in episode.segments],
        turns=[replace(one, signals={}) for one in episode.turns],
        extras={},
    )


def _assembled(config: TrainConfig, provided: frozenset[str]) -> Pipeline:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of measures that do not fit a loss; nothing is trained here
        return assemble(config, provided)


def _same(first: Sequence[Array], second: Sequence[Array]) -> bool:
    return all(np.array_equal(one, two, equal_nan=True) for one, two in zip(first, second, strict=True))


def known(names: Sequence[str]) -> list[str]:
    """Return the methods of some names, all where there are none.

    Raises:
        ConfigError: There is no such method.
    """
    return [methods.get(name).name for name in names] or list(methods.recipes())
