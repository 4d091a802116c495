"""Opens a box before it looks at the rest of the call."""

from __future__ import annotations

from agentenvs.core.actions import ToolCall
from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _act(self, action):
        if isinstance(action, ToolCall) and len(action.arguments) > 1 and self.world["open"] == []:
            self.world["open"].append(1)
            return self._no()
        return super()._act(action)
