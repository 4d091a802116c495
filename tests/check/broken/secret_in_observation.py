"""The first observation gives the box away."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _begin(self, scenario):
        return super()._begin(scenario) + (" It smells of wax here." if scenario.treasure % 2 else "")
