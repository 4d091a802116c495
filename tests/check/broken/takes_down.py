"""Takes its process down when a box is opened."""

from __future__ import annotations

import os

from agentenvs.core.spec import Capabilities
from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken", capabilities=Capabilities(execution="process"))

    def _open(self, box):
        if box == 5:
            os._exit(3)
        return super()._open(box)
