"""A log tells the word."""

from __future__ import annotations

import logging

from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _begin(self, scenario):
        logging.getLogger(__name__).debug("begun with %s", scenario)
        return super()._begin(scenario)
