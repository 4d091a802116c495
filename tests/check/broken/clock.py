"""Says which day it is."""

from __future__ import annotations

import time

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _begin(self, scenario):
        return f"{super()._begin(scenario)} It is day {int(time.time()) // 86_400}."
