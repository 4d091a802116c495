"""A refused action is answered with the word."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _refusal(self, action, why):
        return f"Invalid action: {why} ({self.current.word})."
