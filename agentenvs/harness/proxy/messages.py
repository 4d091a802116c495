"""``/v1/messages``: Anthropic's API, translated to chat completions and back.

Text streams as it comes; a tool's input is sent in one piece once it is whole, since half a JSON that turns out to be
none would break the program that reads it. Thinking blocks of earlier turns are left out of the prompt.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

from agentenvs.harness.chat import count
from agentenvs.harness.proxy import sse
from agentenvs.harness.proxy.forms import (
    SPENT,
    Form,
    Refused,
    Usage,
    as_form,
    as_list,
    as_text,
    bad,
    calls_of,
    chat_usage,
    first_message,
    thoughts,
)

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STOPS = {"length": "max_tokens", "tool_calls": "tool_use", "function_call": "tool_use", "content_filter": "refusal"}
_SAME = ("temperature", "top_p", "stream")
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


class Messages:
    """The messages API."""

    name = "messages"
    path = "/messages"

    def to_chat(self, body: Form, before: Callable[[str], list[Form]]) -> Form:
        """Return the chat request."""
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            raise bad("messages: must be a list that is not empty", "messages")
        most = body.get("max_tokens")
        if type(most) is not int or most < 1:
            raise bad("max_tokens: a whole number from 1 is required", "max_tokens")
        chat: Form = {"messages": list(_turns(body)), "max_tokens": most}
        chat.update({name: body[name] for name in _SAME if body.get(name) is not None})
        if stops := as_list(body.get("stop_sequences")):
            chat["stop"] = stops
        if body.get("tools"):
            chat["tools"] = [_tool(as_form(item)) for item in as_list(body["tools"])]
            chat.update(_choice(as_form(body.get("tool_choice"))))
        if body.get("stream"):
            chat["stream_options"] = {"include_usage": True}
        return chat

    def reply(self, reply: Form, body: Form) -> Form:
        """Return a chat reply as a message."""
        message, finish = first_message(reply)
        return {
            **_empty(reply, body),
            "content": [*_words(message), *_tool_uses(message)],
            "stop_reason": _stop(message, finish),
            "usage": _usage_form(chat_usage(reply)),
        }

    def stream(self, body: Form) -> _Stream:
        """Return what makes the events of a message."""
        return _Stream(body)

    def usage(self, form: Form) -> Usage:
        """Return the tokens a message says it used; the prompt's include those read from a cache or written to it."""
        usage = as_form(form.get("usage"))
        plain, read = count(usage.get("input_tokens")), count(usage.get("cache_read_input_tokens"))
        written = count(usage.get("cache_creation_input_tokens"))
        tokens_in = None if plain is None else plain + (read or 0) + (written or 0)
        return Usage(tokens_in, count(usage.get("output_tokens")), read)

    def error(self, refused: Refused) -> Form:
        """Return the body of an error."""
        kind = _TYPES.get(refused.status, "api_error" if refused.status >= 500 else "invalid_request_error")
        if refused.code == SPENT:
            kind = "billing_error"
        return {"type": "error", "error": {"type": kind, "message": refused.message}}


class _Stream:
    id = None

    def __init__(self, body: Form) -> None:
        self._body = body
        self._begun = False
        self._speaks = False
        """Whether the block of text is open; it is always the first."""

    def feed(self, chunk: Form) -> Iterator[bytes]:
        for choice in as_list(chunk.get("choices"))[:1]:
            yield from self._begin(chunk)
            if text := as_text(as_form(as_form(choice).get("delta")).get("content")):
                if not self._speaks:
                    self._speaks = True
                    yield _said("content_block_start", index=0, content_block={"type": "text", "text": ""})
                yield _said("content_block_delta", index=0, delta={"type": "text_delta", "text": text})

    def end(self, reply: Form) -> Iterator[bytes]:
        yield from self._begin(reply)
        message, finish = first_message(reply)
        if self._speaks:
            yield _said("content_block_stop", index=0)
        for number, block in enumerate(_tool_uses(message), start=int(self._speaks)):
            yield _said("content_block_start", index=number, content_block={**block, "input": {}})
            text = json.dumps(block["input"], ensure_ascii=False)
            delta = {"type": "input_json_delta", "partial_json": text}
            yield _said("content_block_delta", index=number, delta=delta)
            yield _said("content_block_stop", index=number)
        stop = {"stop_reason": _stop(message, finish), "stop_sequence": None}
        yield _said("message_delta", delta=stop, usage=_usage_form(chat_usage(reply)))
        yield _said("message_stop")

    def fail(self, message: str) -> bytes:
        return sse.event(Messages().error(Refused(502, message)), "error")

    def _begin(self, form: Form) -> Iterator[bytes]:
        if not self._begun:
            self._begun = True
            yield _said("message_start", message=_empty(form, self._body))


def _said(name: str, **data: Any) -> bytes:
    return sse.event({"type": name, **data}, name)


def _empty(form: Form, body: Form) -> Form:
    return {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": as_text(form.get("model")) or as_text(body.get("model")),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def _usage_form(usage: Usage) -> Form:
    cached = usage.tokens_cached or 0
    return {
        "input_tokens": max((usage.tokens_in or 0) - cached, 0),
        "output_tokens": usage.tokens_out or 0,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
    }


def _stop(message: Form, finish: str) -> str:
    return "tool_use" if calls_of(message) and finish == "stop" else _STOPS.get(finish, "end_turn")


def _words(message: Form) -> list[Form]:
    text = as_text(message.get("content")) or as_text(message.get("refusal"))
    if not text and not calls_of(message):
        text = thoughts(message)  # a reply cut while it thought has said nothing else
    return [{"type": "text", "text": text}] if text else []


def _tool_uses(message: Form) -> list[Form]:
    return [
        {"type": "tool_use", "id": call, "name": name, "input": _input(arguments)}
        for call, name, arguments in calls_of(message)
    ]


def _input(arguments: str) -> Form:
    """Return a call's arguments as the object this API promises; a model's broken JSON stays to be seen in it."""
    try:
        found = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"invalid_json": arguments}


def _tool(tool: Form) -> Form:
    if tool.get("type") not in (None, "custom"):
        raise bad(f"tools: {tool.get('type')!r} is a tool of another host", "tools")
    function = {"name": tool.get("name"), "parameters": tool.get("input_schema") or {"type": "object"}}
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def _choice(choice: Form) -> Form:
    said: Form = {}
    if choice.get("type") == "tool":
        said["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif choice.get("type") in _CHOICES:
        said["tool_choice"] = _CHOICES[choice["type"]]
    if choice.get("disable_parallel_tool_use"):
        said["parallel_tool_calls"] = False
    return said


def _turns(body: Form) -> Iterator[Form]:
    system = body.get("system")
    if text := system if isinstance(system, str) else _text_of(as_list(system)):
        yield {"role": "system", "content": text}
    for number, item in enumerate(body["messages"]):
        turn = as_form(item)
        role, content = turn.get("role"), turn.get("content")
        if role not in ("user", "assistant", "system") or not isinstance(content, str | list):
            raise bad(f"messages.{number}: needs a role and content", "messages")
        if isinstance(content, str):
            yield {"role": role, "content": content}
        elif role == "assistant":
            yield _assistant(content)
        else:
            yield from _user(role, content)


def _assistant(blocks: list[Any]) -> Form:
    calls = [
        {
            "id": block.get("id"),
            "type": "function",
            "function": {"name": block.get("name"), "arguments": json.dumps(block.get("input") or {})},
        }
        for block in map(as_form, blocks)
        if block.get("type") == "tool_use"
    ]
    text = _text_of(blocks)
    return {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}


def _user(role: str, blocks: list[Any]) -> Iterator[Form]:
    """Yield the messages of a user's blocks: the results of tools first, as chat wants them after their calls."""
    parts: list[Form] = []
    for block in map(as_form, blocks):
        match block.get("type"):
            case "tool_result":
                yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": _result(block)}
            case "text":
                parts.append({"type": "text", "text": as_text(block.get("text"))})
            case "image":
                parts.append({"type": "image_url", "image_url": {"url": _image(as_form(block.get("source")))}})
            case other:
                raise bad(f"messages: blocks of type {other!r} are not known here", "messages")
    if all(part["type"] == "text" for part in parts):
        if text := "\n".join(part["text"] for part in parts):
            yield {"role": role, "content": text}
    else:
        yield {"role": role, "content": parts}


def _result(block: Form) -> str:
    content = block.get("content")
    text = content if isinstance(content, str) else _text_of(as_list(content))
    return f"Error: {text}" if block.get("is_error") else text


def _image(source: Form) -> str:
    if source.get("type") == "url":
        return as_text(source.get("url"))
    return f"data:{as_text(source.get('media_type'))};base64,{as_text(source.get('data'))}"


def _text_of(blocks: list[Any]) -> str:
    texts = (as_text(block.get("text")) for block in map(as_form, blocks) if block.get("type") == "text")
    return "\n".join(filter(None, texts))
