"""Draws from the global random generator."""

from __future__ import annotations

import random

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _begin(self, scenario):
        return f"{super()._begin(scenario)} The light is {random.choice(['red', 'green', 'blue', 'white'])}."
