"""Raises when a second box is opened."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _open(self, box):
        if self.world["open"]:
            raise KeyError(box)
        return super()._open(box)
