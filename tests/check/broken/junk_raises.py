"""Takes any decimal digit for a number."""

from __future__ import annotations

from agentenvs.core.actions import ToolCall
from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _act(self, action):
        if isinstance(action, ToolCall) and action.tool == "open_box":
            return self._open(int(action.arguments["box"]))
        return super()._act(action)
