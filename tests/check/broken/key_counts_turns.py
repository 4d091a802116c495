"""The state key counts turns."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _key(self) -> str:
        return f"{self.turn} {super()._key()}"
