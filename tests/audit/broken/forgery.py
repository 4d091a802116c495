"""The score hangs on an effect, which whoever hands in a record can write as he likes."""

from agentenvs.api import world
from tests.audit.broken.common import PLAYERS, Doors
from tests.audit.broken.common import Sound as Mended

ROW = "record.altered-effects"


class Judged(Doors):
    def reset(self, task):
        self.won = False
        return super().reset(task)

    def score(self):
        return float(self.won)


class Broken(
    world("audit/Forgery-v0", steps=20, players=PLAYERS)(type("Forgery", (Judged,), {"__module__": __name__}))
):
    def _act(self, action):
        outcome = super()._act(action)
        self.world.won = self.effect("judge", lambda: self.world.said == self.world.word)
        return outcome


__all__ = ["Broken", "Mended"]
