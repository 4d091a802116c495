"""Keeps something from the episode before."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")
    greeted = False

    def _begin(self, scenario):
        text = super()._begin(scenario)
        if self.greeted:
            return f"{text} Welcome back."
        self.greeted = True
        return text
