"""Shows a set in its own order, which is another one in each process."""

from __future__ import annotations

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _begin(self, scenario):
        return f"{super()._begin(scenario)} Lamps: {', '.join({'red', 'green', 'blue', 'white', 'black'})}."
