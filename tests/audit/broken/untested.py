"""The score has clauses that nothing ever comes to, so nobody would notice a change of them."""

from agentenvs.api import world
from tests.audit.broken.common import PLAYERS, Doors
from tests.audit.broken.common import Sound as Mended

ROW = "grader.mutants"


@world("audit/Untested-v0", steps=20, players=PLAYERS)
class Broken(Doors):
    def score(self):
        if self.said == "xyzzy" and len(self.opened) > 40:
            return 1.0
        if len(self.said) > 1000:
            return 0.75
        return float(self.said == self.word)


__all__ = ["Broken", "Mended"]
