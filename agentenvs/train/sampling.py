"""Which scenarios are played: in their order, drawn by their place in it, and which groups are worth training on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import TaskRef
from agentenvs.train.interfaces import Assignment, Plan, TaskSampler, samplers
from agentenvs.train.plugins import at_least
from agentenvs.train.records import Episode
from agentenvs.train.worlds import WorldConfig


@samplers.register
class InOrder(TaskSampler):
    """Scenarios one after another, each world of a mixture as often as its weight says.

    A world's next scenario follows its last; a finite range begins again at its end. Which world a group is of is
    drawn from a stream of the run's seed, so that the same state gives the same draw.
    """

    name = "in-order"

    @dataclass(frozen=True)
    class Config:
        """Settings."""

        groups: int = 16
        group_size: int = 8
        minibatches: int = 1
        epochs: int = 1
        horizon: int | None = None
        informative: bool = False
        """Train only on groups whose outcomes differ (DAPO's dynamic sampling)."""

        def __post_init__(self) -> None:
            """Refuse what makes no sense."""
            at_least(self, 1, "groups", "group_size", "minibatches", "epochs", "horizon")

    config: Config

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._worlds: Mapping[str, WorldConfig] = {}
        self._seed = 0
        self._next: dict[str, int] = {}
        self._drawn = 0

    def over(self, worlds: Mapping[str, WorldConfig], seed: int) -> None:
        """Set what is drawn from."""
        self._worlds, self._seed = worlds, seed
        self._next = dict.fromkeys(worlds, 0)

    def plan(self, step: int) -> Plan:
        """See :class:`TaskSampler`."""
        config = self.config
        return Plan(config.groups, config.group_size, config.minibatches, config.epochs, horizon=config.horizon)

    def draw(self, count: int, step: int) -> list[Assignment]:
        """See :class:`TaskSampler`."""
        names = sorted(self._worlds)
        weights = [max(round(self._worlds[name].weight * 1_000_000), 0) for name in names]
        found = []
        for _ in range(count):
            stream = Stream(scenario_key("train", "mixture", self._seed), f"group {self._drawn}")
            name = stream.weighted(names, weights) if len(names) > 1 else names[0]
            self._drawn += 1
            found.append(Assignment(name, self._ref(name)))
        return found

    def admit(self, group: Sequence[Episode]) -> bool:
        """See :class:`TaskSampler`."""
        ended = {episode.outcome for episode in group if episode.lost is None}
        return not self.config.informative or len(ended) > 1

    def state_dict(self) -> dict[str, Any]:
        """See :class:`Plugin`."""
        return {"next": dict(self._next), "drawn": self._drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`Plugin`."""
        self._next, self._drawn = dict(state["next"]), int(state["drawn"])

    def _ref(self, name: str) -> TaskRef:
        world = self._worlds[name]
        place = self._next[name]
        self._next[name] = place + 1
        return TaskRef(world.split, world.first + (place % world.count if world.count else place))
