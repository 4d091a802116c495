"""The right box stands first among the legal actions."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _admissible(self):
        return tuple(sorted(super()._admissible(), key=lambda said: said != f"open {self.current.treasure}"))
