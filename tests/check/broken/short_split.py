"""A split holds less than the spec says."""

from __future__ import annotations

from agentenvs.core.errors import SplitError
from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def scenario(self, split, index):
        if split == "test" and index == 3:
            raise SplitError("no such room")
        return super().scenario(split, index)
