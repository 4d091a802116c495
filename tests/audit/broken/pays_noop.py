"""Being there is worth something."""

from agentenvs.api import world
from tests.audit.broken.common import PLAYERS, Doors
from tests.audit.broken.common import Sound as Mended

ROW = "hack.no-op"


@world("audit/PaysNoop-v0", steps=20, players=PLAYERS)
class Broken(Doors):
    def score(self):
        return 1.0 if self.said == self.word else 0.1


__all__ = ["Broken", "Mended"]
