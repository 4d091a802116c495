"""The address of a task says which one it is: every third is the same."""

from agentenvs.api import world
from tests.audit.broken.common import PLAYERS, Doors
from tests.audit.broken.common import Sound as Mended

ROW = "hack.foretold"


class Broken(
    world("audit/Foretold-v0", steps=20, players=PLAYERS)(type("Foretold", (Doors,), {"__module__": __name__}))
):
    def scenario(self, split, index):
        return super().scenario(split, index % 3)


__all__ = ["Broken", "Mended"]
