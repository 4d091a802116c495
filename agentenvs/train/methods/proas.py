"""ProAS-like: a graph of what led to success says what cannot have helped, and which turn went astray.

The graph of a task holds the states that episodes of success went through and the edges between them. In an episode
with a positive advantage, turns get none of it that were invalid, changed nothing, went back to a state seen before,
or went along an edge the graph does not have though it knows the state. In one with a negative advantage the blame
begins at the first turn that left the graph, and falls by ``decay`` a turn after it; the sum over tokens stays what
it was. Rebuilt from the abstract, with the environment's state keys as states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentenvs.train.batch import Array, Batch
from agentenvs.train.interfaces import Credit, credits_
from agentenvs.train.methods import Recipe, recipe
from agentenvs.train.records import Episode, Turn

Edge = tuple[str | None, str | None]


@credits_.register
class ReferenceGraph(Credit):
    """Masks and moves advantages along a graph of successes."""

    name = "reference-graph"
    kind = "reweighter"
    needs = frozenset(("batch.advantage", "turn.state_key", "turn.valid", "episode.success"))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        decay: float = 0.9
        before: float = 0.0
        """What turns before the one that left the graph keep of the blame."""
        tasks: int = 4096
        """Graphs that are kept; those of tasks longest unseen are dropped."""

    config: Config

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._graphs: dict[str, set[Edge]] = {}

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        for episode in batch.episodes:
            self._learn(episode)
        masked = turns = 0
        for index, episode in enumerate(batch.episodes):
            if not episode.turns:
                continue
            edges = self._graphs.get(_task(episode), set())
            advantage = self._advantage(batch, index)
            if advantage > 0:
                kept = np.array([float(one) for one in reasonable(episode.turns, edges)])
                masked += int((kept == 0).sum())
                batch.scale(index, kept)
            elif advantage < 0:
                lengths = batch.turn_lengths(index)
                batch.scale(index, blame(episode.turns, edges, lengths, self.config.decay, self.config.before))
            turns += len(episode.turns)
        batch.metrics["turns_masked"] = masked / max(turns, 1)

    def _learn(self, episode: Episode) -> None:
        if episode.success:
            edges = self._graphs.pop(_task(episode), set())
            edges |= {(turn.state_key, turn.next_state_key) for turn in episode.turns if turn.valid}
            self._graphs[_task(episode)] = edges
            while len(self._graphs) > self.config.tasks:
                del self._graphs[next(iter(self._graphs))]

    @staticmethod
    def _advantage(batch: Batch, index: int) -> float:
        return float(sum(float(one.sum()) for one in batch.advantages[index]))

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Plugin`."""
        return {task: sorted([list(edge) for edge in edges], key=str) for task, edges in self._graphs.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`Plugin`."""
        self._graphs = {task: {(edge[0], edge[1]) for edge in edges} for task, edges in state.items()}


def _task(episode: Episode) -> str:
    return f"{episode.env}/{episode.ref.split}/{episode.ref.index}"


def reasonable(turns: Sequence[Turn], edges: set[Edge]) -> list[bool]:
    """Return which turns may have helped."""
    known = {edge[0] for edge in edges}
    seen: set[str | None] = set()
    found = []
    for turn in turns:
        seen.add(turn.state_key)
        still = turn.state_key == turn.next_state_key or turn.next_state_key in seen
        strange = turn.state_key in known and (turn.state_key, turn.next_state_key) not in edges
        found.append(turn.valid and not still and not strange)
    return found


def blame(turns: Sequence[Turn], edges: set[Edge], lengths: Array, decay: float, before: float) -> Array:
    """Return what each turn's advantage is multiplied with; the mean over tokens is 1; shape ``(turns,)``."""
    known = {edge[0] for edge in edges}
    left = next(
        (
            place
            for place, turn in enumerate(turns)
            if not turn.valid or (turn.state_key in known and (turn.state_key, turn.next_state_key) not in edges)
        ),
        None,
    )
    if left is None:
        return np.ones(len(turns))
    shares = np.array([before if place < left else decay ** (place - left) for place in range(len(turns))])
    whole = float((shares * lengths).sum())
    return shares * float(lengths.sum()) / whole if whole > 0 else np.ones(len(turns))


recipe(
    Recipe(
        name="proas-like",
        title="ProAS-like",
        source="rebuilt from the abstract of ProAS",
        provenance="like",
        credits=(("group-relative", {"deviation": True}), ("reference-graph", {})),
        aggregation="token-mean",
    )
)
