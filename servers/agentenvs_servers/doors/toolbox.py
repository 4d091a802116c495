"""The tools of a world as protocols that know nothing but tools see them.

A world that hears messages, or has no tools at all, is given ``step`` to speak with, and ``close`` where the player may
end the episode. No environment has tools of these names: they are reserved, so nothing is hidden by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from agentenvs.core.spec import EnvSpec

SAY = "step"
END = "close"

_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
_TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
_REASON = {"type": "object", "properties": {"reason": {"type": "string"}}, "additionalProperties": False}


class Tool(NamedTuple):
    """A tool."""

    name: str
    description: str
    schema: Mapping[str, Any]


def tools_of(spec: EnvSpec) -> list[Tool]:
    """Return all tools of a world."""
    found = [Tool(tool.name, tool.description, tool.parameters or _NO_ARGUMENTS) for tool in spec.tools]
    if "message" in spec.accepts:
        found.append(Tool(SAY, "Say something to the other speaker.", _TEXT))
    elif not found:
        found.append(Tool(SAY, "Do what the text says.", _TEXT))
    if "end" in spec.accepts:
        found.append(Tool(END, "End the episode.", _REASON))
    return found


def action_of(spec: EnvSpec, name: str, arguments: Any) -> Any:
    """Return the action that a call of a tool is; nonsense stays nonsense, and costs a turn."""
    given = arguments if isinstance(arguments, dict) else {}
    if name == SAY and set(given) == {"text"}:
        return said_of(spec, given["text"])
    if name == END and set(given) <= {"reason"}:
        return {"end": given.get("reason", "")}
    return {"tool": name, "arguments": {} if arguments is None else arguments}


def said_of(spec: EnvSpec, text: Any) -> Any:
    """Return the action that plain words are: a message where the world hears messages, and no texts."""
    if "text" not in spec.accepts and "message" in spec.accepts:
        return {"message": text}
    return text
