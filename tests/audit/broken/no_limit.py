"""The limit of turns does not bind."""

from agentenvs.api import world
from tests.audit.broken.common import PLAYERS, Doors
from tests.audit.broken.common import Sound as Mended

ROW = "relation.limit-binds"


class Broken(world("audit/NoLimit-v0", steps=20, players=PLAYERS)(type("NoLimit", (Doors,), {"__module__": __name__}))):
    def __init__(self, **options):
        super().__init__(**options)
        self._limit = None


__all__ = ["Broken", "Mended"]
