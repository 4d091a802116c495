"""A fork shares the world of its original."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _own(self) -> None:
        self.world = dict(self.world)  # and the list of open boxes in it is the original's
