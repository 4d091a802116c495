"""From what a player says to one typed command: the text grammar of both data releases, and tool calls.

A command is ``(operation, first, second)``: two indices into the layout, -1 where there is none. Text must match
exactly after blanks are stripped from its ends; case, articles and inner blanks matter. What does not parse becomes an
error code, a plain string, and nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agentenvs.core.spec import ToolSpec

if TYPE_CHECKING:
    from agentenvs.envs.household.layout import Layout

NONE: Final = 0
GO: Final = 1
OPEN: Final = 2
CLOSE: Final = 3
TAKE: Final = 4
MOVE: Final = 5
CLEAN_WITH: Final = 6
HEAT_WITH: Final = 7
COOL_WITH: Final = 8
USE: Final = 9
SLICE: Final = 10
EXAMINE: Final = 11
"""Look at a receptacle that is here."""
INSPECT: Final = 12
"""``examine`` an object in the hand."""
LOOK: Final = 13
INVENTORY: Final = 14
HELP: Final = 15

OPERATIONS: Final = (
    "none",
    "go",
    "open",
    "close",
    "take",
    "move",
    "clean",
    "heat",
    "cool",
    "use",
    "slice",
    "examine",
    "inspect",
    "look",
    "inventory",
    "help",
)
"""Name of each operation, by its number."""

Command: TypeAlias = tuple[int, int, int]
Parser: TypeAlias = "Callable[[Layout, str], Command | str]"

UNKNOWN_COMMAND: Final = "unknown_command"
UNKNOWN_OBJECT: Final = "unknown_object"
UNKNOWN_RECEPTACLE: Final = "unknown_receptacle"
UNKNOWN_TOOL: Final = "unknown_tool"
BAD_ARGUMENTS: Final = "bad_arguments"

MAX_COMMAND: Final = 256
"""Characters; no command is nearly as long."""


def parse_text(layout: Layout, text: object) -> Command | str:
    """Return the command a text means, or an error code.

    Args:
        layout: The scenario the names belong to.
        text: Anything; only a string can mean something.
    """
    if not isinstance(text, str) or len(text) > MAX_COMMAND:
        return UNKNOWN_COMMAND
    verb, blank, rest = text.strip().partition(" ")
    if blank:
        parser = _PARSERS.get(verb)
        return UNKNOWN_COMMAND if parser is None else parser(layout, rest)
    if verb == "help" and layout.text == "0.3":
        return UNKNOWN_COMMAND
    return _BARE.get(verb, UNKNOWN_COMMAND)


def _with_receptacle(operation: int, lead: str = "") -> Parser:
    """Return a parser of ``<verb> <lead>R``."""
    skip = len(lead)

    def parse(layout: Layout, rest: str) -> Command | str:
        if skip:
            if not rest.startswith(lead):
                return UNKNOWN_COMMAND
            rest = rest[skip:]
        receptacle = layout.receptacle_index.get(rest)
        return UNKNOWN_RECEPTACLE if receptacle is None else (operation, receptacle, -1)

    return parse


def _with_both(operation: int, link: str, version: str = "") -> Parser:
    """Return a parser of ``<verb> O<link>R``, understood by one text version or, where empty, by both."""

    def parse(layout: Layout, rest: str) -> Command | str:
        if version and layout.text != version and not layout.aliases:
            return UNKNOWN_COMMAND
        first, found, second = rest.partition(link)
        if not found:
            return UNKNOWN_COMMAND
        thing = layout.thing_index.get(first)
        if thing is None:
            return UNKNOWN_OBJECT
        receptacle = layout.receptacle_index.get(second)
        return UNKNOWN_RECEPTACLE if receptacle is None else (operation, thing, receptacle)

    return parse


def _parse_use(layout: Layout, rest: str) -> Command | str:
    thing = layout.thing_index.get(rest)
    return UNKNOWN_OBJECT if thing is None else (USE, thing, -1)


def _parse_slice(layout: Layout, rest: str) -> Command | str:
    first, found, second = rest.partition(" with ")
    if not found:
        return UNKNOWN_COMMAND
    thing, knife = layout.thing_index.get(first), layout.thing_index.get(second)
    return UNKNOWN_OBJECT if thing is None or knife is None else (SLICE, thing, knife)


def _parse_examine(layout: Layout, rest: str) -> Command | str:
    receptacle = layout.receptacle_index.get(rest)
    if receptacle is not None:
        return EXAMINE, receptacle, -1
    thing = layout.thing_index.get(rest)
    return UNKNOWN_OBJECT if thing is None else (INSPECT, thing, -1)


_BARE: Final[dict[str, Command]] = {
    "look": (LOOK, -1, -1),
    "inventory": (INVENTORY, -1, -1),
    "help": (HELP, -1, -1),
}
_PARSERS: Final[dict[str, Parser]] = {
    "go": _with_receptacle(GO, "to "),
    "open": _with_receptacle(OPEN),
    "close": _with_receptacle(CLOSE),
    "take": _with_both(TAKE, " from "),
    "move": _with_both(MOVE, " to ", "0.4"),
    "put": _with_both(MOVE, " in/on ", "0.3"),
    "clean": _with_both(CLEAN_WITH, " with "),
    "heat": _with_both(HEAT_WITH, " with "),
    "cool": _with_both(COOL_WITH, " with "),
    "use": _parse_use,
    "slice": _parse_slice,
    "examine": _parse_examine,
}

_ARGUMENTS: Final = {
    "receptacle": "a receptacle, e.g. 'fridge 1'",
    "object": "an object, e.g. 'apple 2'",
    "knife": "a knife or butterknife in the hand, e.g. 'knife 1'",
    "target": "a receptacle here, or the object in the hand",
}
_EXAMPLES: Final = {"receptacle": "fridge 1", "object": "apple 2", "knife": "knife 1", "target": "fridge 1"}
_TOOLS: Final[dict[str, tuple[int, tuple[str, ...], str]]] = {
    "go_to": (GO, ("receptacle",), "Go to a receptacle and see what is in or on it."),
    "open_receptacle": (OPEN, ("receptacle",), "Open a closed receptacle that is here."),
    "close_receptacle": (CLOSE, ("receptacle",), "Close an open receptacle that is here."),
    "take": (TAKE, ("object", "receptacle"), "Take an object out of or off a receptacle; the hand must be empty."),
    "move": (MOVE, ("object", "receptacle"), "Put the object in the hand in or on a receptacle that is here."),
    "clean": (CLEAN_WITH, ("object", "receptacle"), "Clean the object in the hand with a sinkbasin that is here."),
    "heat": (HEAT_WITH, ("object", "receptacle"), "Heat the object in the hand with a microwave that is here."),
    "cool": (COOL_WITH, ("object", "receptacle"), "Cool the object in the hand with a fridge that is here."),
    "use": (USE, ("object",), "Turn on a lamp that is here."),
    "slice": (SLICE, ("object", "knife"), "Slice an object that is here with the knife in the hand."),
    "examine": (EXAMINE, ("target",), "Look at a receptacle that is here, or at the object in the hand."),
    "look": (LOOK, (), "Say which receptacles are here."),
    "inventory": (INVENTORY, (), "Say what is in the hand."),
}


def _tool(name: str) -> ToolSpec:
    _, arguments, description = _TOOLS[name]
    properties = {argument: {"type": "string", "description": _ARGUMENTS[argument]} for argument in arguments}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(arguments),
        "additionalProperties": False,
    }
    return ToolSpec(name, description, schema, ({argument: _EXAMPLES[argument] for argument in arguments},))


TOOLS: Final = tuple(_tool(name) for name in _TOOLS)


def parse_call(layout: Layout, tool: object, arguments: object) -> Command | str:
    """Return the command a tool call means, or an error code.

    Args:
        layout: The scenario the names belong to.
        tool: Name of the tool.
        arguments: Arguments by name; exactly those of the tool's schema, each a string.
    """
    found = _TOOLS.get(tool) if isinstance(tool, str) else None
    if found is None:
        return UNKNOWN_TOOL
    operation, wanted, _ = found
    if not isinstance(arguments, Mapping) or len(arguments) != len(wanted):
        return BAD_ARGUMENTS
    values = [arguments.get(name) for name in wanted]
    if not all(isinstance(value, str) for value in values):
        return BAD_ARGUMENTS
    return _command(layout, operation, wanted, values)


def _command(layout: Layout, operation: int, wanted: tuple[str, ...], values: list[Any]) -> Command | str:
    if operation == EXAMINE:
        return _parse_examine(layout, values[0].strip())
    indices = [-1, -1]
    for position, (name, value) in enumerate(zip(wanted, values, strict=True)):
        is_receptacle = name == "receptacle"
        index = (layout.receptacle_index if is_receptacle else layout.thing_index).get(value.strip())
        if index is None:
            return UNKNOWN_RECEPTACLE if is_receptacle else UNKNOWN_OBJECT
        indices[position] = index
    return operation, indices[0], indices[1]


def tool_call(layout: Layout, command: Command) -> dict[str, Any] | None:
    """Return the tool call that means a command, as ``{"tool", "arguments"}``; None for ``help``, which has none."""
    operation, *indices = command
    if operation == INSPECT:
        return {"tool": "examine", "arguments": {"target": layout.things[indices[0]]}}
    for name, (number, wanted, _) in _TOOLS.items():
        if number == operation:
            names = (
                layout.receptacles[index] if argument in ("receptacle", "target") else layout.things[index]
                for argument, index in zip(wanted, indices, strict=False)
            )
            return {"tool": name, "arguments": dict(zip(wanted, names, strict=True))}
    return None


def command_text(layout: Layout, command: Command) -> str:
    """Return the text of a command in the layout's text version."""
    operation, first, second = command
    if operation in (LOOK, INVENTORY, HELP):
        return OPERATIONS[operation]
    if operation in (GO, OPEN, CLOSE, EXAMINE):
        verb = "go to" if operation == GO else OPERATIONS[operation]
        return f"{verb} {layout.receptacles[first]}"
    thing = layout.things[first]
    if operation in (USE, INSPECT):
        return f"{'use' if operation == USE else 'examine'} {thing}"
    if operation == SLICE:
        return f"slice {thing} with {layout.things[second]}"
    receptacle = layout.receptacles[second]
    if operation == TAKE:
        return f"take {thing} from {receptacle}"
    if operation == MOVE:
        return f"put {thing} in/on {receptacle}" if layout.text == "0.3" else f"move {thing} to {receptacle}"
    return f"{OPERATIONS[operation]} {thing} with {receptacle}"
