"""There is no state key."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _key(self):
        return None
