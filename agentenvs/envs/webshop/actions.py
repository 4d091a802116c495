"""What an agent may say in the shop: text and tool calls, read into one typed command.

The grammar is the original's: ``search[words]`` and ``click[label]``, where whatever follows the last bracket is not
read, the argument is taken in lower case and the verb is not. A command is a pair ``(verb, argument)``; what is no
command is an error code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from agentenvs.core.spec import ToolSpec

SEARCH: Final = "search"
CLICK: Final = "click"
CHOOSE: Final = "choose"
"""``choose_option``: a click that says which option it means. Its argument is ``name`` and ``value``, a line each."""

BUY: Final = "buy now"
NEXT: Final = "next >"
PREV: Final = "< prev"
BACK: Final = "back to search"
SUB_PAGES: Final = ("description", "features", "reviews", "attributes")

UNKNOWN_COMMAND: Final = "unknown_command"
UNKNOWN_TOOL: Final = "unknown_tool"
BAD_ARGUMENTS: Final = "bad_arguments"
NO_SUCH_LABEL: Final = "no_such_label"
NO_SEARCH_BAR: Final = "no_search_bar"
SOLD_OUT: Final = "sold_out"

MAX_COMMAND: Final = 4096
"""Characters; no label and no sensible query is as long."""

Command: TypeAlias = tuple[str, str]

_GRAMMAR = re.compile(r"(.+)\[(.+)\]")


def parse_text(text: object) -> Command | str:
    """Return the command a text means, or an error code."""
    if not isinstance(text, str) or len(text) > MAX_COMMAND:
        return UNKNOWN_COMMAND
    match = _GRAMMAR.match(text)
    if match is None:
        return UNKNOWN_COMMAND
    verb, argument = match.groups()
    return (verb, argument.lower()) if verb in (SEARCH, CLICK) else UNKNOWN_COMMAND


def parse_call(tool: object, arguments: object, *, native: bool) -> Command | str:
    """Return the command a tool call means, or an error code.

    Args:
        tool: Name of the tool.
        arguments: Arguments by name; exactly those of the tool's schema, each a string.
        native: Whether the tools that only the profile ``native`` has may be used.
    """
    found = _TOOLS.get(tool) if isinstance(tool, str) else None
    if found is None or (found[2] and not native):
        return UNKNOWN_TOOL
    wanted = tuple(found[1])
    if not isinstance(arguments, Mapping) or len(arguments) != len(wanted):
        return BAD_ARGUMENTS
    values = [arguments.get(name) for name in wanted]
    if not all(isinstance(value, str) and 0 < len(value) <= MAX_COMMAND for value in values):
        return BAD_ARGUMENTS
    lowered = [str(value).lower() for value in values]
    if tool == "search":
        return SEARCH, lowered[0]
    if tool == "choose_option":
        return CHOOSE, "\n".join(lowered)
    return CLICK, {"next_page": NEXT, "buy": BUY}.get(str(tool)) or lowered[0]


def tool_call(command: Command) -> dict[str, Any]:
    """Return the tool call that means a command, as ``{"tool", "arguments"}``."""
    verb, argument = command
    if verb == CHOOSE:
        name, _, value = argument.partition("\n")
        return {"tool": "choose_option", "arguments": {"name": name, "value": value}}
    return {"tool": verb, "arguments": {"query" if verb == SEARCH else "label": argument}}


def command_text(command: Command) -> str:
    """Return the one spelling of a command as text."""
    verb, argument = command
    return f"click[{argument.partition(chr(10))[2]}]" if verb == CHOOSE else f"{verb}[{argument}]"


_TOOLS: Final[dict[str, tuple[str, dict[str, tuple[str, str]], bool]]] = {
    "search": ("Search the shop for words.", {"query": ("words to look for", "blue cotton shirt")}, False),
    "click": (
        "Click something on the page by its label: a button, a product's id or a value of an option.",
        {"label": ("what the page calls it, in any case", "back to search")},
        False,
    ),
    "open_product": ("Open the page of a listed product.", {"product": ("its id", "b0k2m4p6q8")}, True),
    "choose_option": (
        "Choose a value of an option on a product's page.",
        {"name": ("name of the option", "color"), "value": ("the value", "blue")},
        True,
    ),
    "next_page": ("Go to the next page of results.", {}, True),
    "buy": ("Buy the product on this page as chosen.", {}, True),
}


def _tool(name: str) -> ToolSpec:
    description, arguments, native = _TOOLS[name]
    schema = {
        "type": "object",
        "properties": {
            argument: {"type": "string", "minLength": 1, "maxLength": MAX_COMMAND, "description": said}
            for argument, (said, _) in arguments.items()
        },
        "required": list(arguments),
        "additionalProperties": False,
    }
    only = " Only with profile native." if native else ""
    return ToolSpec(name, description + only, schema, ({key: example for key, (_, example) in arguments.items()},))


TOOLS: Final = tuple(_tool(name) for name in _TOOLS)
