"""What is no letter is dropped before it is compared, so that texts nobody can read are taken."""

import re

from agentenvs.api import world
from tests.audit.broken.common import PLAYERS, Doors
from tests.audit.broken.common import Sound as Mended

ROW = "hack.look-alikes"


@world("audit/UnicodeLoose-v0", steps=20, players=PLAYERS)
class Broken(Doors):
    def step(self, action):
        return super().step(re.sub(r"[^a-z0-9 ]", "", action))


__all__ = ["Broken", "Mended"]
