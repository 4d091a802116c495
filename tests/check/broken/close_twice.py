"""Cannot be closed twice."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def close(self) -> None:
        del self.world
        super().close()
        del self.world
