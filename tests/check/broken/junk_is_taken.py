"""Calls of a tool that is not there pass for valid."""

from __future__ import annotations

from agentenvs.core.actions import ToolCall
from tests.check.broken.sound import Boxes, spec_of


class Broken(Boxes):
    spec = spec_of(__name__, "Broken")

    def _act(self, action):
        outcome = super()._act(action)
        return outcome._replace(valid=True) if isinstance(action, ToolCall) and action.tool != "open_box" else outcome
