"""Raises for numbers below -1, which no list of hard cases has."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _open(self, box):
        if type(box) is int and box < -1:
            raise IndexError("no such box")
        return super()._open(box)
