"""Declares no forks and forks."""

from __future__ import annotations

import copy

from agentenvs.core.spec import Capabilities
from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken", capabilities=Capabilities(forkable=False))

    def fork(self):
        return copy.deepcopy(self)
