"""What a player may do in one turn.

An action is text (``str``), a :class:`ToolCall`, a :class:`Message` to the other speaker, :class:`End`, or
:class:`Calls`, an ordered list of tool calls with optional text. Whatever arrives from a model is turned into one of
these by :func:`parse_action`, which never raises: what has no meaning becomes :class:`Malformed`, and a malformed
action is a turn of the episode like any other, only an invalid one.

JSON forms: ``"go to fridge 1"`` · ``{"tool": "go_to", "arguments": {"receptacle": "fridge 1"}}`` ·
``{"message": "Hello."}`` · ``{"end": "done"}`` · ``{"calls": [{"tool": …}, …], "text": "…"}`` · ``{"malformed": …}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agentenvs.core.canon import JSON, clean_text

MAX_RAW = 65_536
"""Characters a text may have, and of a malformed action that are kept: records keep actions whole, and junk must not
fill a disk. The JSON of calls and messages may be about twice as long."""

_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of one tool."""

    tool: str
    """Name of the tool, as in the spec."""
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    """Arguments by name; JSON values."""


@dataclass(frozen=True, slots=True)
class Message:
    """Words to the other speaker of a dialogue."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """The player ends the episode."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Calls:
    """An ordered list of tool calls in one turn, with optional text beside them."""

    calls: tuple[ToolCall, ...]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Malformed:
    """Something a model said that is no action; playing it costs a turn."""

    raw: JSON
    """What arrived, cleaned and bounded so that it can stand in a record."""
    why: str
    """What is wrong with it, one sentence."""


Action: TypeAlias = str | ToolCall | Message | End | Calls | Malformed


def parse_action(raw: Any) -> Action:
    """Turn anything into an action; never raises.

    Args:
        raw: An action already, its JSON form, a bare list of tool calls, or junk.
    """
    if type(raw) is str and len(raw) <= MAX_RAW:
        return clean_text(raw) if not raw.isascii() else raw
    action = _parse(raw)
    if isinstance(action, Malformed) or _size(form := to_json(action)) <= 2 * MAX_RAW:
        return action
    return malformed(form, f"an action of more than {MAX_RAW:,} characters")


def _parse(raw: Any) -> Action:
    if isinstance(raw, ToolCall | Message | End | Calls | Malformed):
        return _checked(raw)
    if isinstance(raw, str):
        if len(raw) > MAX_RAW:
            return malformed(raw, f"a text of more than {MAX_RAW:,} characters")
        return clean_text(str(raw))
    if isinstance(raw, list | tuple):
        return _parse_calls({"calls": list(raw)})
    if isinstance(raw, Mapping):
        for key, parse in _FORMS.items():
            if key in raw:
                return parse(raw)
        return malformed(raw, f"an object with none of the keys {', '.join(_FORMS)}")
    return malformed(raw, f"a {type(raw).__name__} is no action")


def to_json(action: Action) -> JSON:
    """Return the JSON form of an action; ``parse_action`` reads it back."""
    if isinstance(action, str):
        return action
    if isinstance(action, ToolCall):
        return {"tool": action.tool, "arguments": dict(action.arguments)}
    if isinstance(action, Message):
        return {"message": action.text}
    if isinstance(action, End):
        return {"end": action.reason}
    if isinstance(action, Malformed):
        return {"malformed": action.raw, "why": action.why}
    form: dict[str, JSON] = {"calls": [to_json(call) for call in action.calls]}
    if action.text is not None:
        form["text"] = action.text
    return form


def malformed(raw: Any, why: str) -> Malformed:
    """Wrap junk so that it can be played, recorded and replayed."""
    return Malformed(_storable(raw), _cut(clean_text(why)))


def calls_of(action: Action) -> tuple[ToolCall, ...]:
    """Return the tool calls of an action, in order; empty for one that has none."""
    if isinstance(action, ToolCall):
        return (action,)
    return action.calls if isinstance(action, Calls) else ()


def _checked(action: ToolCall | Message | End | Calls | Malformed) -> Action:
    """Clean an action object that did not come through JSON: its fields may hold anything."""
    if isinstance(action, Malformed):
        return malformed(action.raw, _text(action.why))
    try:
        if isinstance(action, Calls) and not all(isinstance(call, ToolCall) for call in action.calls):
            return malformed(_spelling(action), "a list of calls holds something that is no tool call")
        return parse_action(to_json(action))
    except (TypeError, ValueError, AttributeError, RecursionError):
        return malformed(_spelling(action), f"a {type(action).__name__} with fields of the wrong type")


def _parse_call(raw: Mapping[str, Any]) -> Action:
    tool = raw.get("tool")
    arguments = raw.get("arguments", {})
    if not isinstance(tool, str):
        return malformed(raw, "the name of a tool is a string")
    if not isinstance(arguments, Mapping):
        return malformed(raw, "the arguments of a tool call are an object")
    if extra := [key for key in raw if key not in ("tool", "arguments")]:
        return malformed(raw, f"a tool call has tool and arguments, not {_spelling(extra[0])}")
    clean = _storable(arguments)
    if not isinstance(clean, dict):
        return malformed(raw, "the arguments are nested too deeply, too long, or no JSON")
    return ToolCall(clean_text(tool), clean)


def _parse_calls(raw: Mapping[str, Any]) -> Action:
    items, text = raw["calls"], raw.get("text")
    if not isinstance(items, list | tuple) or not (text is None or isinstance(text, str)):
        return malformed(raw, "calls is a list, text a string")
    calls: list[ToolCall] = []
    for item in items:
        call = _call_of(item)
        if not isinstance(call, ToolCall):
            return malformed(raw, "a list of calls holds something that is no tool call")
        calls.append(call)
    if not calls:
        return malformed(raw, "an empty list of calls")
    return Calls(tuple(calls), None if text is None else clean_text(text))


def _call_of(item: Any) -> Action | None:
    # No way back into a list of calls: one within another within another would exhaust the stack.
    if isinstance(item, Mapping):
        return _parse_call(item) if "tool" in item else None
    return _checked(item) if isinstance(item, ToolCall) else None


def _parse_message(raw: Mapping[str, Any]) -> Action:
    text = raw["message"]
    return Message(clean_text(text)) if isinstance(text, str) else malformed(raw, "a message is a string")


def _parse_end(raw: Mapping[str, Any]) -> Action:
    reason = raw["end"]
    if reason is True or reason is None:
        return End()
    return End(clean_text(reason)) if isinstance(reason, str) else malformed(raw, "the reason of an end is a string")


def _parse_malformed(raw: Mapping[str, Any]) -> Action:
    return malformed(raw["malformed"], _text(raw.get("why", "")))


_FORMS = {
    "tool": _parse_call,
    "calls": _parse_calls,
    "message": _parse_message,
    "end": _parse_end,
    "malformed": _parse_malformed,
}


def _storable(value: Any) -> JSON:
    """Return a JSON value for anything: cleaned, bounded, and a fixed point of itself."""
    try:
        clean = _clean(value, 0)
    except (ValueError, RecursionError):
        return _cut(_spelling(value))
    if isinstance(clean, str):
        return _cut(clean)
    return clean if _size(clean) <= MAX_RAW else _cut(_spelling(clean))


def _clean(value: Any, depth: int) -> JSON:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(str(value))
    if isinstance(value, int):
        if value.bit_length() > 4096:
            raise ValueError("too long a number")
        return int(value)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError("not a finite number")
        return float(value)
    if isinstance(value, Mapping):
        return {_key(key): _clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item, depth + 1) for item in value]
    raise ValueError(f"a {type(value).__name__} is no JSON")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise ValueError("the keys of an object are strings")
    return clean_text(key)


def _size(value: JSON) -> int:
    """Return a cheap bound on the length of a clean value's JSON."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, dict):
        return sum(len(key) + _size(item) + 4 for key, item in value.items())
    if isinstance(value, list):
        return sum(_size(item) + 1 for item in value)
    return 8 + (value.bit_length() // 3 if isinstance(value, int) else 24)


def _spelling(value: Any) -> str:
    """Return a reproducible text for what is no JSON: its type and, where that is safe, its repr."""
    try:
        if isinstance(value, list | tuple | Mapping):
            json.dumps(value)  # refuses what holds objects, whose repr may hold an address
        if isinstance(value, str | int | float | bytes | list | tuple | Mapping | ToolCall | Message | End | Calls):
            return clean_text(repr(value))
    except (TypeError, ValueError, RecursionError):
        pass
    return f"<{type(value).__name__}>"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _spelling(value)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_RAW else text[:MAX_RAW] + "…"
