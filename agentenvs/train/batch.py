"""What credit is written to: the episodes of one update, and arrays that lie beside their tokens.

A :class:`Batch` is numpy and knows no engine. An estimator writes ``advantages`` (one array a segment, zero off the
loss mask), a reweighter multiplies them, a normaliser standardises them; :class:`Batch` offers the walks they share:
over groups, over turns with their tokens, and between numbers a turn and numbers a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from agentenvs.train.records import Episode, Floats, Segment, Turn

Array = npt.NDArray[np.float64]


@dataclass(slots=True)
class Batch:
    """The episodes of one update.

    Args:
        episodes: Those that are trained on; groups need not stand together.
        version: Of the weights that are about to be trained.
    """

    episodes: Sequence[Episode]
    version: int = 0
    advantages: list[list[Floats]] = field(default_factory=list)
    """By episode and segment: an advantage a token."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What plug-ins say of the batch; goes to the log."""

    def __post_init__(self) -> None:
        """Begin with advantages of zero."""
        self.advantages = [[np.zeros(len(one), np.float32) for one in each.segments] for each in self.episodes]

    # ---- walks -----------------------------------------------------------------------------------------------------

    def groups(self) -> list[list[int]]:
        """Return the indices of episodes of each group, groups in the order they first appear."""
        found: dict[tuple[str, int], list[int]] = {}
        for index, episode in enumerate(self.episodes):
            found.setdefault((episode.env, episode.group), []).append(index)
        return list(found.values())

    def segments(self) -> Iterator[tuple[int, int, Segment]]:
        """Yield episode, place in it, and segment."""
        for index, episode in enumerate(self.episodes):
            for place, segment in enumerate(episode.segments):
                yield index, place, segment

    def turns(self) -> Iterator[tuple[int, int, Turn]]:
        """Yield episode, place in it, and turn."""
        for index, episode in enumerate(self.episodes):
            for place, turn in enumerate(episode.turns):
                yield index, place, turn

    def outcomes(self) -> Array:
        """Return what each episode is worth to a method: its return and its penalties; shape ``(episodes,)``."""
        return np.array([episode.outcome + float(episode.extras.get("penalty", 0.0)) for episode in self.episodes])

    def lengths(self) -> Array:
        """Return how many tokens of each episode are trained on; shape ``(episodes,)``."""
        return np.array([episode.tokens for episode in self.episodes], dtype=np.float64)

    def turn_lengths(self, index: int) -> Array:
        """Return how many tokens of each turn of an episode are trained on; shape ``(turns,)``."""
        episode = self.episodes[index]
        return np.array(
            [episode.segments[turn.segment].loss_mask[turn.start : turn.end].sum() for turn in episode.turns],
            dtype=np.float64,
        )

    # ---- between episodes, turns and tokens ------------------------------------------------------------------------

    def paint(self, index: int, values: float | Array) -> None:
        """Set the advantages of an episode.

        Args:
            index: Which.
            values: One number for all trained tokens, or one a turn; shape ``(turns,)``.
        """
        episode, advantages = self.episodes[index], self.advantages[index]
        if np.ndim(values) == 0:
            for segment, advantage in zip(episode.segments, advantages, strict=True):
                advantage[:] = np.where(segment.loss_mask, values, 0.0)
            return
        each = np.asarray(values, dtype=np.float64)
        for turn, value in zip(episode.turns, each, strict=True):
            span = slice(turn.start, turn.end)
            mask = episode.segments[turn.segment].loss_mask[span]
            advantages[turn.segment][span] = np.where(mask, value, 0.0)

    def scale(self, index: int, weights: Array) -> None:
        """Multiply the advantages of an episode turn by turn; shape ``(turns,)``."""
        for turn, weight in zip(self.episodes[index].turns, weights, strict=True):
            self.advantages[index][turn.segment][turn.start : turn.end] *= np.float32(weight)

    def flat(self) -> Array:
        """Return the advantages of all trained tokens, episode after episode; shape ``(tokens,)``."""
        parts = [self.advantages[index][place][segment.loss_mask] for index, place, segment in self.segments()]
        return np.concatenate(parts).astype(np.float64) if parts else np.zeros(0)

    def standardise(self, mean: float, deviation: float) -> None:
        """Map the advantage of every trained token to ``(advantage - mean) / deviation``."""
        for index, place, segment in self.segments():
            advantage, mask = self.advantages[index][place], segment.loss_mask
            advantage[mask] = (advantage[mask] - np.float32(mean)) / np.float32(deviation)


def returns_to_go(rewards: Array, gamma: float) -> Array:
    """Return ``G_k = r_k + gamma G_{k+1}`` of each turn; shape ``(turns,)``."""
    found = np.zeros(len(rewards))
    ahead = 0.0
    for place in range(len(rewards) - 1, -1, -1):
        ahead = float(rewards[place]) + gamma * ahead
        found[place] = ahead
    return found


def spread(values: Array) -> float:
    """Return the unbiased standard deviation; 1 of fewer than two values, as verl and TRL take it."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 1.0
