"""A step after the end pays once more."""

from __future__ import annotations

from agentenvs.core.turn import StepResult
from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def step(self, action, *, effects=None):
        if self.ending is not None:
            return StepResult(self.observation, 1.0, True, False, {"invalid": False})
        return super().step(action, effects=effects)
