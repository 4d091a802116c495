"""Of all words that may be said, only the right one is listed."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _admissible(self):
        return (*super()._admissible(), f"say {self.current.word}")
