"""``info["invalid"]`` is no bool."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def step(self, action, *, effects=None):
        result = super().step(action, effects=effects)
        if not result.info["invalid"]:
            result.info["invalid"] = None
        return result
