"""Cannot go on where it was lost: the line it asks is open only where it was opened."""

from __future__ import annotations

from agentenvs.core.observation import TextBlock
from agentenvs.core.spec import Capabilities
from agentenvs.core.turn import Outcome
from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken", capabilities=Capabilities(forkable=False, snapshot=False))

    def _begin(self, scenario):
        self.line = self._fed is None
        self.effect("line.opened", lambda: "opened")
        return super()._begin(scenario)

    def _act(self, action):
        if self.effect("line.said", lambda: "here" if self.line else "dead") == "dead":
            gone = (TextBlock("The line is dead."),)
            return Outcome(gone, valid=False, error="engine_failed", ended=True, ending="aborted")
        return super()._act(action)
