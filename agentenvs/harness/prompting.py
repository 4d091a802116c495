"""What a model is told before its first turn, and the functions it may call."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agentenvs.core.canon import JSON
from agentenvs.core.spec import EnvSpec, ToolSpec
from agentenvs.harness.history import Conversation, Message, Shown
from agentenvs.harness.protocol import Protocol
from agentenvs.harness.reading import end_tool


def uses_tools(protocol: Protocol, spec: EnvSpec, tools: str) -> bool:
    """Return whether the model is offered functions to call."""
    if protocol.replies.channel != "any":
        return protocol.replies.channel == "tool"
    return tools == "auto" and "tool" in spec.accepts and bool(spec.tools)


def functions(protocol: Protocol, spec: EnvSpec) -> list[JSON]:
    """Return the ``tools`` field of a request."""
    replies = protocol.replies
    if replies.tool:
        argument = {"type": "string", "description": replies.argument_description}
        return [_function(replies.tool, replies.tool_description, _object({replies.argument: argument}))]
    offered = [tool for tool in spec.tools if not replies.offered or tool.name in replies.offered]
    made = [_function(tool.name, _described(tool), tool.parameters) for tool in offered]
    name = end_tool(spec)
    if name is not None:
        reason = {"type": "string", "description": "Why, in a few words."}
        made.append(_function(name, "End the episode.", {**_object({"reason": reason}), "required": []}))
    return made


def head(protocol: Protocol, spec: EnvSpec, *, tools: bool) -> list[Message]:
    """Return the messages that stand before everything else."""
    prompts = protocol.prompts
    if protocol.replies.channel == "any":
        text = prompts["tool" if tools else "text"].format(
            title=spec.title,
            description=spec.description,
            calls="one" if spec.max_calls == 1 else f"one to {spec.max_calls}",
            actions=describe_actions(spec),
        )
        return [{"role": "system", "content": text}]
    messages: list[Message] = []
    if "system" in prompts:
        messages.append({"role": "system", "content": prompts["system"]})
    if "opener" in prompts:
        messages += [
            {"role": "user", "content": prompts["opener"]},
            {"role": "assistant", "content": prompts["assent"]},
        ]
    return messages


def open_talk(protocol: Protocol, spec: EnvSpec, instruction: str, first: Shown, *, tools: bool) -> Conversation:
    """Return the conversation of an episode at its first observation.

    Args:
        protocol: Its shape.
        spec: The environment.
        instruction: The task sentence, where it stands apart from the first observation.
        first: What is seen first.
        tools: Whether the model is offered functions to call.
    """
    messages = head(protocol, spec, tools=tools)
    if protocol.name == "native" and instruction and instruction not in first.full:
        messages[0]["content"] += f"\n\n{instruction}"
    talk = Conversation(protocol, messages, task=instruction)
    talk.begin(first)
    if "head" in protocol.prompts:
        talk.intro = protocol.prompts["head"].replace("{examples}", "".join(protocol.examples_for(talk.task)))
    return talk


def describe_actions(spec: EnvSpec) -> str:
    """Return in words what an environment takes as an action, for players without tool calls."""
    parts: list[str] = []
    if "text" in spec.accepts:
        parts.append("An action is a text command.")
    if "tool" in spec.accepts and spec.tools:
        lead = "It may also be" if parts else "An action is"
        lines = "\n".join(
            f"- {tool.name}: {_described(tool)} Arguments: {_json(tool.parameters)}" for tool in spec.tools
        )
        parts.append(f'{lead} a tool call as JSON on one line: {{"tool": NAME, "arguments": {{…}}}}. Tools:\n{lines}')
        if spec.max_calls > 1:
            parts.append(f"Up to {spec.max_calls} tool calls may stand in a list: [{{…}}, {{…}}].")
    if "message" in spec.accepts:
        parts.append('To say something to the other speaker: {"message": "…"}')
    if "end" in spec.accepts:
        parts.append('To end the episode: {"end": "why"}')
    return "\n".join(parts)


def _described(tool: ToolSpec) -> str:
    return tool.description + (f" Example: {_json(tool.examples[0])}" if tool.examples else "")


def _function(name: str, description: str, parameters: Mapping[str, JSON]) -> JSON:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": dict(parameters)},
    }


def _object(properties: Mapping[str, JSON]) -> dict[str, JSON]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _json(value: Mapping[str, JSON]) -> str:
    return json.dumps(dict(value), ensure_ascii=False)
