"""Nonsense wears the player out, which the state key does not know."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _begin(self, scenario):
        text = super()._begin(scenario)
        self.world["tired"] = 0
        return text

    def _no(self):
        self.world["tired"] += 1
        return super()._no()

    def _open(self, box):
        if self.world["tired"] > 2 and box == 1:
            return super()._no()
        return super()._open(box)

    def _save(self):
        return {**super()._save(), "tired": self.world["tired"]}

    def _load(self, scenario, saved):
        super()._load(scenario, saved)
        self.world["tired"] = int(saved["tired"])
