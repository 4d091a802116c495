"""A reply tells more than was observed: how far the right box is."""

from __future__ import annotations

from agentenvs.core.observation import TextBlock
from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _open(self, box):
        outcome = super()._open(box)
        side = "left" if outcome.valid and box > self.current.treasure else "right"
        return outcome._replace(blocks=(*outcome.blocks, TextBlock(f"Something rattles to your {side}.")))
