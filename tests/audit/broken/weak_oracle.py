"""One task in some cannot be solved: not all doors that are drawn are there."""

from agentenvs.api import world
from tests.audit.broken.common import DOORS, PLAYERS, Doors
from tests.audit.broken.common import Sound as Mended

ROW = "anchor.oracle"


@world("audit/WeakOracle-v0", steps=2, players=PLAYERS)
class Broken(Doors):
    def step(self, action):
        said = super().step(action)
        if self.door == DOORS[0]:
            self.said = ""
        return said


__all__ = ["Broken", "Mended"]
