"""The right word somewhere in what is said is enough."""

from agentenvs.api import Ended, world
from tests.audit.broken.common import PLAYERS, Doors
from tests.audit.broken.common import Sound as Mended

ROW = "hack.denied-solution"


@world("audit/Substring-v0", steps=20, players=PLAYERS)
class Broken(Doors):
    def step(self, action):
        if action.startswith("say "):
            self.said = action
            return Ended("You say it.")
        return super().step(action)

    def score(self):
        return float(self.word in self.said)


__all__ = ["Broken", "Mended"]
