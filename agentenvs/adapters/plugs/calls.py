"""A world as a set of tools, for trainers whose models call tools and say nothing else to the world.

A world that is played by words alone gets one tool, ``act``; one that hears messages ``speak``; one that a player may
end ``finish``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agentenvs.core.actions import End, Message, ToolCall
from agentenvs.core.canon import JSON
from agentenvs.core.spec import EnvSpec

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NOTHING: Mapping[str, JSON] = {"type": "object", "properties": {}}


class Call(NamedTuple):
    """A tool."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON schema of an object."""
    action: Callable[[Mapping[str, Any]], Any]
    """What a call with these arguments plays."""


def calls(spec: EnvSpec) -> dict[str, Call]:
    """Return the tools of a world by name; those whose name is no identifier are left out."""
    found = {
        tool.name: Call(tool.name, tool.description, tool.parameters or _NOTHING, _caller(tool.name))
        for tool in spec.tools
        if _NAME.fullmatch(tool.name)
    }
    words: Mapping[str, tuple[str, str, str, str, Callable[[str], Any]]] = {
        "text": ("act", "Do something.", "command", "What to do, in words.", str),
        "message": ("speak", "Say something to the other speaker.", "text", "What to say.", Message),
        "end": ("finish", "End the episode.", "reason", "Why, in a few words.", End),
    }
    for kind in spec.accepts:
        if kind not in words or (kind == "text" and found):
            continue
        name, what, argument, told, action = words[kind]
        properties = {argument: {"type": "string", "description": told}}
        parameters = {"type": "object", "properties": properties, "required": [argument]}
        found[name] = Call(name, what, parameters, _sayer(argument, action))
    return found


def _caller(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda arguments: ToolCall(name, dict(arguments))


def _sayer(argument: str, action: Callable[[str], Any]) -> Callable[[Mapping[str, Any]], Any]:
    return lambda arguments: action(str(arguments.get(argument, "")))
