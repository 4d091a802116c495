"""GiGPO: episodes against their group, and turns against turns that stood in the same state.

``A = A_E + w A_S``. ``A_E`` is the outcome less the group's mean; ``A_S`` is the return from a turn on (discounted by
gamma) less the mean over all turns of the group with the same state key, 0 where there is no other (Feng et al. 2025,
equations 5 to 8). As in the authors' code, the group's mean counts an episode once for each of its turns, and neither
is divided by a deviation; both can be set. What is a state is the environment's own word (``state_key``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentenvs.train.batch import Array, Batch, returns_to_go, spread
from agentenvs.train.interfaces import Credit, credits_
from agentenvs.train.methods import Recipe, recipe

EPSILON = 1e-6


@credits_.register
class GroupInGroup(Credit):
    """Outcomes and returns of turns, each against their own group."""

    name = "group-in-group"
    needs = frozenset(("episode.group", "turn.state_key"))
    provides = frozenset(("batch.advantage",))

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        weight: float = 1.0
        """Of the turns' share."""
        gamma: float = 0.95
        deviation: bool = False
        """Whether both are divided by standard deviations."""
        by_turns: bool = True
        """Whether an episode counts once a turn in its group's mean and deviation, or once."""
        invalid: float = 0.0
        """Taken from the reward of each invalid turn."""

    config: Config

    def apply(self, batch: Batch) -> None:
        """See :class:`Credit`."""
        shared = turns = 0
        for group in batch.groups():
            outcome = self._episodes(batch, group)
            step, found, count = self._turns(batch, group)
            shared, turns = shared + found, turns + count
            for index in group:
                batch.paint(index, outcome[index] + self.config.weight * step[index])
        batch.metrics["turns_shared"] = shared / max(turns, 1)

    def _episodes(self, batch: Batch, group: list[int]) -> dict[int, float]:
        worth = {index: self._return(batch, index) for index in group}
        repeats = [max(len(batch.episodes[index].turns), 1) if self.config.by_turns else 1 for index in group]
        values = np.repeat([worth[index] for index in group], repeats)
        if len(group) == 1:
            return worth
        divisor = spread(values) + EPSILON if self.config.deviation else 1.0
        return {index: (value - float(values.mean())) / divisor for index, value in worth.items()}

    def _turns(self, batch: Batch, group: list[int]) -> tuple[dict[int, Array], int, int]:
        returns = {index: returns_to_go(self._rewards(batch, index), self.config.gamma) for index in group}
        states: dict[str | None, list[tuple[int, int]]] = {}
        for index in group:
            for place, turn in enumerate(batch.episodes[index].turns):
                states.setdefault(turn.state_key, []).append((index, place))
        found = {index: np.zeros(len(values)) for index, values in returns.items()}
        shared = 0
        for key, places in states.items():
            if key is None or len(places) < 2:
                continue
            shared += len(places)
            values = np.array([returns[index][place] for index, place in places])
            divisor = spread(values) + EPSILON if self.config.deviation else 1.0
            for (index, place), value in zip(places, values, strict=True):
                found[index][place] = (value - values.mean()) / divisor
        return found, shared, sum(len(values) for values in found.values())

    def _rewards(self, batch: Batch, index: int) -> Array:
        turns = batch.episodes[index].turns
        return np.array([turn.reward - (0.0 if turn.valid else self.config.invalid) for turn in turns])

    def _return(self, batch: Batch, index: int) -> float:
        return float(self._rewards(batch, index).sum())


recipe(
    Recipe(
        name="gigpo",
        title="GiGPO",
        source="Feng et al. 2025 (Group-in-group policy optimization), equations 5 to 8; the authors' verl-agent code",
        provenance="exact",
        credits=(("group-in-group", {}),),
        aggregation="token-mean",
    )
)
