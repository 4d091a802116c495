"""From a reply of a model to an action: tool calls, the one tool of a protocol, or text through its parser.

Nothing here raises for anything a model may say. What has no meaning becomes a malformed action, which is a turn of the
episode, or, where the protocol says so, no action at all and another question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentenvs.core.actions import Calls, End, Malformed, Message, ToolCall, malformed, parse_action
from agentenvs.core.canon import JSON
from agentenvs.core.spec import EnvSpec
from agentenvs.harness.chat import RawCall, Reply
from agentenvs.harness.history import Said, assistant, bounded
from agentenvs.harness.parsers import Parsed
from agentenvs.harness.protocol import Protocol

_WHY = {
    "empty_reply": "the reply is empty",
    "no_action_line": 'the reply has no line that begins with "Action:"',
    "several_action_lines": 'more than one line of the reply begins with "Action:"',
    "text_after_action": "something follows the action line",
    "empty_action": "the action line holds no action",
    "no_tool_call": "the reply holds no tool call",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply means."""

    action: Any
    """What is played; None where the model is asked again."""
    said: Said
    failure: str | None = None
    """Code of how the reply broke the format."""
    repaired: bool = False
    thought: bool = False
    output: str = ""
    """The words a rule about equal outputs compares."""


def end_tool(spec: EnvSpec) -> str | None:
    """Return the name of the function by which a model ends the episode, where the environment lets it."""
    if "end" not in spec.accepts:
        return None
    taken = {tool.name for tool in spec.tools}
    return next(name for name in ("end_episode", "finish_episode", "player_ends_episode") if name not in taken)


def read_tools(reply: Reply, spec: EnvSpec, number: int) -> Reading:
    """Read tool calls of the environment's own tools.

    Args:
        reply: What came back.
        spec: The environment.
        number: Number of the model call, for the ids of its tool calls.
    """
    if not reply.calls:
        return _without_calls(reply, spec)
    calls = [parse_call(call) for call in reply.calls]
    broken = [call for call in calls if isinstance(call, str)]
    if broken:
        raw: JSON = [{"tool": call.name, "arguments": call.arguments} for call in reply.calls]
        return Reading(malformed(raw, broken[0]), _as_text(reply), "broken_tool_call")
    good = tuple(call for call in calls if isinstance(call, ToolCall))
    return Reading(_action_of(good, reply.content, spec), _with_calls(good, reply.content, number))


def read_one_tool(reply: Reply, protocol: Protocol, admissible: Sequence[str], number: int) -> Reading:
    """Read the one argument of the one tool of a protocol; later calls of the reply are ignored."""
    call = parse_call(reply.calls[0]) if reply.calls else "no_tool_call"
    if isinstance(call, str):
        return Reading(None, _as_text(reply), "no_tool_call" if not reply.calls else "broken_tool_call")
    argument = next(iter(call.arguments.values()), None)
    if not isinstance(argument, str):
        return Reading(None, _as_text(reply), "broken_tool_call")
    parsed = protocol.parser(argument, admissible)
    said = _with_calls((call,), reply.content, number)
    return Reading(parsed.action, said, parsed.failure, parsed.repaired, output=argument)


def read_text(reply: Reply, protocol: Protocol, spec: EnvSpec, admissible: Sequence[str]) -> Reading:
    """Read words through the parser of the protocol."""
    parsed = protocol.parser(reply.content, admissible)
    action = parsed.action
    said = Said(assistant(reply.content), bounded(action or ""))
    if action is None and protocol.replies.invalid == "turn":
        code = "no_message" if reply.fault else parsed.failure or "empty_reply"
        return Reading(malformed(reply.content, _why(reply, code)), said, code)
    if action is None and protocol.replies.invalid == "play":
        action = ""
    if action is not None and protocol.replies.channel == "any":
        return _open_text(action, said, parsed, spec)
    prefix = protocol.replies.thought
    thought = bool(prefix) and action is not None and action.startswith(prefix)
    return Reading(action, said, parsed.failure, parsed.repaired, thought, output=action or "")


def said_of(content: str, *calls: RawCall) -> Reply:
    """Return a reply that says so, as if a model had."""
    return Reply(content, calls, None, None, None, None, None, ())


def parse_call(raw: RawCall) -> ToolCall | str:
    """Return a tool call, or why it is none. Absent or empty arguments are no arguments."""
    if not isinstance(raw.name, str) or not raw.name:
        return "a tool call names no tool"
    arguments: Any = raw.arguments
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            return f"the arguments of {raw.name[:80]} are no JSON: {error}"
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return f"the arguments of {raw.name[:80]} are no JSON object"
    action = parse_action({"tool": raw.name, "arguments": arguments})
    return action if isinstance(action, ToolCall) else _why_not(action)


def _why_not(action: Any) -> str:
    return action.why if isinstance(action, Malformed) else "this is no tool call"


def _without_calls(reply: Reply, spec: EnvSpec) -> Reading:
    said = _as_text(reply)
    if "message" in spec.accepts and reply.content.strip():
        return Reading(Message(reply.content), said, output=reply.content)
    code = "no_message" if reply.fault else "no_tool_call" if reply.content.strip() else "empty_reply"
    return Reading(malformed(reply.content, _why(reply, code)), said, code)


def _action_of(calls: tuple[ToolCall, ...], content: str, spec: EnvSpec) -> Any:
    text = content if content.strip() and "message" in spec.accepts else None
    if len(calls) == 1 and calls[0].tool == end_tool(spec):
        reason = calls[0].arguments.get("reason")
        return End(reason if isinstance(reason, str) else "")
    return calls[0] if len(calls) == 1 and text is None else Calls(calls, text)


def _open_text(action: str, said: Said, parsed: Parsed, spec: EnvSpec) -> Reading:
    """Read an action of any environment: JSON where it looks like it and is, else a text command."""
    form: JSON = None
    if action.startswith(("{", "[")):
        try:
            form = json.loads(action)
        except (ValueError, RecursionError):
            form = None
    if form is not None:
        played = parse_action(form)
        return Reading(played, said, "broken_json_action" if isinstance(played, Malformed) else None)
    if "text" in spec.accepts:
        return Reading(action, said, parsed.failure)
    return Reading(malformed(action, "the action is no JSON"), said, "broken_json_action")


def _as_text(reply: Reply) -> Said:
    """Return a reply as words only: an endpoint may refuse to be shown a broken tool call again."""
    calls = "".join(f"\n[tool call {call.name}({call.arguments})]" for call in reply.calls)
    return Said(assistant(f"{reply.content}{calls}".strip()), bounded(reply.content))


def _with_calls(calls: Sequence[ToolCall], content: str, number: int) -> Said:
    # Nine letters and digits: some endpoints insist on that form of an id.
    ids = tuple(f"c{number % 100_000:05d}{place % 1000:03d}" for place in range(len(calls)))
    forms = [_call_form(call, name) for call, name in zip(calls, ids, strict=True)]
    message: dict[str, JSON] = {"role": "assistant", "content": bounded(content), "tool_calls": forms}
    return Said(message, bounded(content), ids)


def _call_form(call: ToolCall, name: str) -> Mapping[str, JSON]:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {"id": name, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


def _why(reply: Reply, code: str) -> str:
    why = reply.fault or _WHY.get(code, code)
    return f"{why} (it was cut off by its length limit)" if reply.finish == "length" else why
