"""Pays before the end and declares final rewards."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def step(self, action, *, effects=None):
        result = super().step(action, effects=effects)
        found = "note" in result.observation.text and not result.terminated
        return result._replace(reward=0.5) if found else result
