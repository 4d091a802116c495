"""Judges again whenever it is asked."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def finish(self, ending):
        super().finish(ending)
        return self._conclude(ending)
