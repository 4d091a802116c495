"""Every door that is opened pays a little, also the hundredth time."""

from agentenvs.api import world
from tests.audit.broken.common import PLAYERS, Doors
from tests.audit.broken.common import Sound as Mended

ROW = "relation.repeating"


@world("audit/MoreSteps-v0", steps=20, players=PLAYERS)
class Broken(Doors):
    def reset(self, task):
        self.count = 0
        return super().reset(task)

    def open(self, door):
        self.count += 1
        return super().open(door)

    def score(self):
        return max(float(self.said == self.word), min(self.count, 20) / 25)


__all__ = ["Broken", "Mended"]
