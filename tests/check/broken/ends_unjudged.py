"""A step says that the episode is over, and it is not."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def step(self, action, *, effects=None):
        result = super().step(action, effects=effects)
        return result._replace(truncated=True) if self.turn == 9 and not result.terminated else result
