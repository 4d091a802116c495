"""A hole that only the world's author knows to look for: a word of honour opens every door."""

from agentenvs.api import Ended, world
from tests.audit.broken.common import PLAYERS, Doors
from tests.audit.broken.common import Sound as Mended

ROW = "hack.own_hack.Swears"


class Swears:
    """Swears that it knows the word."""

    def reset(self, spec, task):
        """Nothing to do."""

    def act(self, observation):
        return "sesame"


PROBES = {Swears: 0.0}


@world("audit/OwnHack-v0", steps=20, players=PLAYERS)
class Broken(Doors):
    def step(self, action):
        if action != "sesame":
            return super().step(action)
        self.said = self.word
        return Ended("As you say.")


__all__ = ["Broken", "Mended"]
