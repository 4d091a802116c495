"""``/v1/responses``: OpenAI's newer API, translated to chat completions and back.

Text streams as it comes; the arguments of a call are sent in one piece once they are whole. ``previous_response_id``
works within an episode. Tools that OpenAI itself runs (search, files, code) are refused.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

from agentenvs.harness.chat import count
from agentenvs.harness.proxy import sse
from agentenvs.harness.proxy.chat import error
from agentenvs.harness.proxy.forms import (
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

_SAME = ("temperature", "top_p", "parallel_tool_calls", "stream", "user", "top_logprobs")
_ECHOED = ("instructions", "max_output_tokens", "metadata", "previous_response_id", "reasoning", "temperature", "text",
           "top_p", "truncation", "user")  # fmt: skip
_REFUSED = ("background", "conversation", "prompt")


class Responses:
    """The responses API."""

    name = "responses"
    path = "/responses"

    def to_chat(self, body: Form, before: Callable[[str], list[Form]]) -> Form:
        """Return the chat request."""
        for name in _REFUSED:
            if body.get(name):
                raise bad(f"{name} is not known here", name)
        earlier = body.get("previous_response_id")
        chat: Form = {"messages": [*_instructions(body), *(before(earlier) if earlier else ()), *_turns(body)]}
        chat.update({name: body[name] for name in _SAME if body.get(name) is not None})
        if body.get("max_output_tokens") is not None:
            chat["max_tokens"] = body["max_output_tokens"]
        if effort := as_form(body.get("reasoning")).get("effort"):
            chat["reasoning_effort"] = effort
        if form := _format(as_form(as_form(body.get("text")).get("format"))):
            chat["response_format"] = form
        if body.get("tools"):
            chat["tools"] = [_tool(as_form(item)) for item in as_list(body["tools"])]
            if choice := body.get("tool_choice"):
                chat["tool_choice"] = _choice(choice)
        if body.get("stream"):
            chat["stream_options"] = {"include_usage": True}
        return chat

    def reply(self, reply: Form, body: Form) -> Form:
        """Return a chat reply as a response."""
        return _ended(_shell(reply, body), _items(reply), reply)

    def stream(self, body: Form) -> _Stream:
        """Return what makes the events of a response."""
        return _Stream(body)

    def usage(self, form: Form) -> Usage:
        """Return the tokens a response says it used."""
        usage = as_form(form.get("usage"))
        cached = as_form(usage.get("input_tokens_details")).get("cached_tokens")
        return Usage(count(usage.get("input_tokens")), count(usage.get("output_tokens")), count(cached))

    def error(self, refused: Refused) -> Form:
        """Return the body of an error."""
        return error(refused)


class _Stream:
    def __init__(self, body: Form) -> None:
        self._body = body
        self._shell: Form = {}
        self._number = -1
        self._text: Form | None = None
        """The message item while it is spoken; it is always the first."""

    @property
    def id(self) -> str | None:
        return self._shell.get("id")

    def feed(self, chunk: Form) -> Iterator[bytes]:
        for choice in as_list(chunk.get("choices"))[:1]:
            yield from self._begin(chunk)
            if text := as_text(as_form(as_form(choice).get("delta")).get("content")):
                if self._text is None:
                    self._text = _message("")
                    yield from self._open(self._text)
                yield self._part("output_text.delta", self._text, delta=text, logprobs=[])

    def end(self, reply: Form) -> Iterator[bytes]:
        yield from self._begin(reply)
        items = _items(reply)
        spoken = [item for item in items if item["type"] == "message"]
        if spoken and self._text is not None:
            spoken[0]["id"] = self._text["id"]
            yield from self._close(spoken[0])
        # In a stream what is spoken comes first, since it was sent while the rest was not known yet.
        rest = [item for item in items if self._text is None or item["type"] != "message"]
        ordered = [*(spoken if self._text is not None else ()), *rest]
        for place, item in enumerate(ordered):
            if item in rest:
                yield from self._whole(place, item)
        done = _ended(self._shell, ordered, reply)
        yield self._said("completed" if done["status"] == "completed" else "incomplete", response=done)

    def fail(self, message: str) -> bytes:
        shell = self._shell or _shell({}, self._body)
        failed = {**shell, "status": "failed", "error": {"code": "server_error", "message": message}}
        return self._said("failed", response=failed)

    def _begin(self, form: Form) -> Iterator[bytes]:
        if not self._shell:
            self._shell = _shell(form, self._body)
            yield self._said("created", response=self._shell)
            yield self._said("in_progress", response=self._shell)

    def _open(self, item: Form) -> Iterator[bytes]:
        yield self._said("output_item.added", output_index=0, item={**item, "status": "in_progress", "content": []})
        yield self._part("content_part.added", item, part=item["content"][0])

    def _close(self, item: Form) -> Iterator[bytes]:
        part = item["content"][0]
        yield self._part("output_text.done", item, text=part["text"], logprobs=[])
        yield self._part("content_part.done", item, part=part)
        yield self._said("output_item.done", output_index=0, item=item)

    def _whole(self, place: int, item: Form) -> Iterator[bytes]:
        """Yield the events of an item that is sent at once."""
        if item["type"] != "function_call":
            yield self._said("output_item.added", output_index=place, item=item)
            yield self._said("output_item.done", output_index=place, item=item)
            return
        where = {"item_id": item["id"], "output_index": place}
        begun = {**item, "arguments": "", "status": "in_progress"}
        yield self._said("output_item.added", output_index=place, item=begun)
        yield self._said("function_call_arguments.delta", **where, delta=item["arguments"])
        yield self._said("function_call_arguments.done", **where, name=item["name"], arguments=item["arguments"])
        yield self._said("output_item.done", output_index=place, item=item)

    def _part(self, name: str, item: Form, **data: Any) -> bytes:
        return self._said(name, item_id=item["id"], output_index=0, content_index=0, **data)

    def _said(self, kind: str, **data: Any) -> bytes:
        self._number += 1
        return sse.event({"type": f"response.{kind}", "sequence_number": self._number, **data}, f"response.{kind}")


def _shell(form: Form, body: Form) -> Form:
    return {
        "id": f"resp_{secrets.token_hex(12)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": as_text(form.get("model")) or as_text(body.get("model")),
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "store": False,
        "usage": None,
        **{name: body.get(name) for name in _ECHOED},
    }


def _ended(shell: Form, items: list[Form], reply: Form) -> Form:
    _, finish = first_message(reply)
    cut = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
    usage = chat_usage(reply)
    tokens_in, tokens_out = usage.tokens_in or 0, usage.tokens_out or 0
    details = as_form(as_form(reply.get("usage")).get("completion_tokens_details"))
    return {
        **shell,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": cut} if cut else None,
        "output": items,
        "usage": {
            "input_tokens": tokens_in,
            "input_tokens_details": {"cached_tokens": usage.tokens_cached or 0},
            "output_tokens": tokens_out,
            "output_tokens_details": {"reasoning_tokens": count(details.get("reasoning_tokens")) or 0},
            "total_tokens": tokens_in + tokens_out,
        },
    }


def _items(reply: Form) -> list[Form]:
    message, _ = first_message(reply)
    items: list[Form] = []
    if thought := thoughts(message):
        content = [{"type": "reasoning_text", "text": thought}]
        items.append({"type": "reasoning", "id": f"rs_{secrets.token_hex(12)}", "summary": [], "content": content})
    if text := as_text(message.get("content")):
        items.append(_message(text))
    elif refusal := as_text(message.get("refusal")):
        items.append({**_message(""), "content": [{"type": "refusal", "refusal": refusal}]})
    for call, name, arguments in calls_of(message):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{secrets.token_hex(12)}",
                "call_id": call,
                "name": name,
                "arguments": arguments,
                "status": "completed",
            }
        )
    return items


def _message(text: str) -> Form:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": f"msg_{secrets.token_hex(12)}", "role": "assistant", "status": "completed"}
    return {**item, "content": [part]}


def _tool(tool: Form) -> Form:
    if tool.get("type") != "function":
        raise bad(f"tools: {tool.get('type')!r} is a tool of another host; only functions are known here", "tools")
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: tool[name] for name in names if tool.get(name) is not None}}


def _choice(choice: Any) -> Any:
    if isinstance(choice, str):
        return choice
    if as_form(choice).get("type") != "function":
        raise bad("tool_choice must be auto, none, required or a function", "tool_choice")
    return {"type": "function", "function": {"name": choice.get("name")}}


def _format(form: Form) -> Form | None:
    match form.get("type"):
        case "json_object":
            return {"type": "json_object"}
        case "json_schema":
            names = ("name", "schema", "strict", "description")
            schema = {name: form[name] for name in names if form.get(name) is not None}
            return {"type": "json_schema", "json_schema": schema}
        case _:
            return None


def _instructions(body: Form) -> list[Form]:
    text = as_text(body.get("instructions"))
    return [{"role": "system", "content": text}] if text else []


def _turns(body: Form) -> list[Form]:
    given = body.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise bad("input must be text or a list that is not empty", "input")
    turns: list[Form] = []
    for number, item in enumerate(given):
        _add(as_form(item), number, turns)
    return turns


def _add(item: Form, number: int, turns: list[Form]) -> None:
    """Add an item to the messages; calls that follow their message belong to it."""
    match item.get("type", "message"):
        case "message" if isinstance(item.get("content"), str | list):
            role = "system" if item.get("role") == "developer" else item.get("role")
            turns.append({"role": role, "content": _content(item["content"])})
        case "function_call":
            if not turns or turns[-1]["role"] != "assistant":
                turns.append({"role": "assistant", "content": None})
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            turns[-1].setdefault("tool_calls", []).append(call)
        case "function_call_output":
            output = item.get("output")
            text = output if isinstance(output, str) else _flat(_content(as_list(output)))
            turns.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": text})
        case "reasoning":
            pass  # chat has no place for what was thought in earlier turns
        case other:
            raise bad(f"input[{number}]: items of type {other!r} are not known here", "input")


def _content(content: str | list[Any]) -> str | list[Form]:
    """Return the content of a message: text where it is only that."""
    if isinstance(content, str):
        return content
    parts: list[Form] = []
    for part in map(as_form, content):
        match part.get("type"):
            case "input_text" | "output_text" | "text":
                parts.append({"type": "text", "text": as_text(part.get("text"))})
            case "refusal":
                parts.append({"type": "text", "text": as_text(part.get("refusal"))})
            case "input_image":
                parts.append({"type": "image_url", "image_url": {"url": as_text(part.get("image_url"))}})
            case other:
                raise bad(f"input: parts of type {other!r} are not known here", "input")
    return _flat(parts) if all(part["type"] == "text" for part in parts) else parts


def _flat(content: str | list[Form]) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
