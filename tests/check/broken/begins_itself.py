"""A step before the first reset begins an episode."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")
    fresh = True

    def step(self, action, *, effects=None):
        if self.fresh and self.current is None:
            self.fresh = False
            self.reset()
        return super().step(action, effects=effects)
