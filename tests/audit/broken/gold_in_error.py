"""Who says something wrong is told what would have been right."""

from agentenvs.api import Invalid, world
from tests.audit.broken.common import PLAYERS, Doors
from tests.audit.broken.common import Sound as Mended

ROW = "secret.canaries"


@world("audit/GoldInError-v0", steps=20, players=PLAYERS)
class Broken(Doors):
    def step(self, action):
        said = super().step(action)
        return Invalid(f"{said} (expected: say {self.word})") if isinstance(said, Invalid) else said


__all__ = ["Broken", "Mended"]
