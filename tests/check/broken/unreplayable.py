"""What chance says does not stand in the record."""

from __future__ import annotations

import os

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _begin(self, scenario):
        return f"{super()._begin(scenario)} The light is {os.urandom(2).hex()}."
