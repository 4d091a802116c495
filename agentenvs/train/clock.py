"""CPU seconds of a run, counted on from its last checkpoint: wall time says little on a machine that is shared.

What is counted is this process, all of its threads, and those of its children that have ended, on all ranks; not what
a server of worlds or of models takes elsewhere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from agentenvs.train.engine.ranks import Ranks


def used() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


class Clock:
    """Counts from when it is made; all ranks must ask it together.

    Args:
        ranks: The processes whose seconds are added up.
    """

    def __init__(self, ranks: Ranks | None = None) -> None:
        self._ranks = ranks or Ranks()
        self._before = 0.0
        self._start = used()
        self.steps = 0.0
        """Of the steps alone: evaluations, cloning and checkpoints left out."""

    def seconds(self) -> float:
        """Return those of the whole run up to now."""
        return self._before + self._ranks.sum({"cpu": used() - self._start})["cpu"]

    def state_dict(self) -> dict[str, float]:
        """Return what a checkpoint keeps."""
        return {"seconds": self.seconds(), "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Count on from a checkpoint, as if no time had passed since."""
        self._before, self.steps = state["seconds"], state["steps"]
        self._start = used()
