"""``info`` tells whether one is near."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _open(self, box):
        outcome = super()._open(box)
        return outcome._replace(data={"warm": box < self.current.treasure}) if outcome.valid else outcome
