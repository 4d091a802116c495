"""An observation is longer than the spec says."""

from __future__ import annotations

from agentenvs.core.observation import Observation, TextBlock
from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _observe(self, blocks):
        shown = super()._observe(blocks)
        return Observation((*shown.blocks, TextBlock("It is dark. " * 100)), shown.admissible, shown.budgets)
