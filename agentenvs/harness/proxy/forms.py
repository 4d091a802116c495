"""What the three APIs share: usage, errors, and chat replies put together from the chunks of their streams."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agentenvs.core.canon import JSON
from agentenvs.harness.chat import count

Form = dict[str, Any]
"""A JSON object."""

SPENT = "episode_budget_spent"
"""Code of the refusal of an episode that has used what it may."""


class Refused(Exception):
    """A program's request is not answered by the model.

    Args:
        status: Of the answer.
        message: What is wrong, for whoever wrote the program.
        code: A word for programs; the status says enough where None.
        param: The field that is wrong, where it is one.
    """

    def __init__(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param


def bad(message: str, param: str | None = None) -> Refused:
    """Return the refusal of a request that makes no sense."""
    return Refused(400, message, param=param)


class Translator(Protocol):
    """Turns the chunks of a chat stream into the events of an API."""

    @property
    def id(self) -> str | None:
        """By what a later request may name the answer; None where none may."""

    def feed(self, chunk: Form) -> Iterator[bytes]:
        """Yield the events of a chunk."""

    def end(self, reply: Form) -> Iterator[bytes]:
        """Yield the last events; ``reply`` is the whole chat reply."""

    def fail(self, message: str) -> bytes:
        """Return the event of a stream that broke."""


class Dialect(Protocol):
    """One API."""

    name: str
    path: str
    """Where an endpoint has it, after ``/v1``."""

    def to_chat(self, body: Form, before: Callable[[str], list[Form]]) -> Form:
        """Return the chat request of a request; ``before`` finds the messages of an earlier one by its id."""

    def reply(self, reply: Form, body: Form) -> Form:
        """Return the answer that a chat reply is in this API."""

    def stream(self, body: Form) -> Translator:
        """Return what makes a stream of this API."""

    def usage(self, form: Form) -> Usage:
        """Return the tokens an answer of this API says it used."""

    def error(self, refused: Refused) -> Form:
        """Return the body of an error."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a call; None where nobody said."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    """Those of the prompt that the endpoint had in its cache."""


def chat_usage(form: Mapping[str, Any]) -> Usage:
    """Return the usage that a chat reply or chunk tells."""
    usage = as_form(form.get("usage"))
    details = as_form(usage.get("prompt_tokens_details"))
    return Usage(
        count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")), count(details.get("cached_tokens"))
    )


def as_form(value: Any) -> Form:
    """Return a JSON object, an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a list, an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return a string, an empty one in place of anything else."""
    return value if isinstance(value, str) else ""


def first_message(reply: Form) -> tuple[Form, str]:
    """Return the message of a chat reply's first choice, and why it ended."""
    choice = as_form(next(iter(as_list(reply.get("choices"))), None))
    return as_form(choice.get("message")), as_text(choice.get("finish_reason")) or "stop"


def thoughts(message: Form) -> str:
    """Return what a model thought aloud before it spoke, by either of the names in use."""
    return as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))


def calls_of(message: Form) -> list[tuple[str, str, str]]:
    """Return a message's tool calls: id, name, arguments as text."""
    found = []
    for item in map(as_form, as_list(message.get("tool_calls"))):
        function = as_form(item.get("function"))
        arguments = as_text(function.get("arguments"))
        found.append((as_text(item.get("id")), as_text(function.get("name")), arguments))
    return found


def name_calls(reply: Form, request: Form) -> Form:
    """Return a reply whose tool calls have ids that the conversation does not have yet.

    Some endpoints give none, or the same ones in each reply; frameworks take a call with a known id for the one before.
    """
    taken = {call[0] for turn in map(as_form, as_list(request.get("messages"))) for call in calls_of(turn)}
    for choice in map(as_form, as_list(reply.get("choices"))):
        for call in map(as_form, as_list(as_form(choice.get("message")).get("tool_calls"))):
            if not as_text(call.get("id")) or call["id"] in taken:
                call["id"] = f"call_{secrets.token_hex(12)}"
            taken.add(call["id"])
    return reply


class Gathered:
    """A chat reply while its chunks arrive."""

    def __init__(self) -> None:
        self.chunks = 0
        self.size = 0
        """Characters of what was said."""
        self._form: Form = {}
        self._choices: dict[int, Form] = {}

    @property
    def complete(self) -> bool:
        """Whether each choice that was begun has said why it ended."""
        return bool(self._choices) and all(choice["finish_reason"] for choice in self._choices.values())

    def add(self, chunk: Form) -> None:
        """Take a chunk."""
        self.chunks += 1
        for name, value in chunk.items():
            if name != "choices" and value is not None:
                self._form[name] = value
        for item in as_list(chunk.get("choices")):
            part = as_form(item)
            number = part.get("index")
            self._take(part, self._choice(number if type(number) is int else 0))

    def reply(self) -> Form:
        """Return the reply so far, as one that was not streamed would be."""
        choices = []
        for choice in (self._choices[number] for number in sorted(self._choices)):
            message = {name: value for name, value in choice["message"].items() if value not in ("", [])}
            choices.append({**choice, "message": {"role": "assistant", "content": None, **message}})
        return {"created": int(time.time()), **self._form, "object": "chat.completion", "choices": choices}

    def _choice(self, number: int) -> Form:
        fresh = {"index": number, "message": {"content": ""}, "finish_reason": None}
        return self._choices.setdefault(number, fresh)

    def _take(self, part: Form, choice: Form) -> None:
        delta, message = as_form(part.get("delta")), choice["message"]
        for name in ("content", "reasoning_content", "reasoning", "refusal"):
            if text := as_text(delta.get(name)):
                message[name] = message.get(name, "") + text
                self.size += len(text)
        for call in as_list(delta.get("tool_calls")):
            self._take_call(as_form(call), message.setdefault("tool_calls", []))
        if reason := part.get("finish_reason"):
            choice["finish_reason"] = reason
        if tokens := as_list(as_form(part.get("logprobs")).get("content")):
            choice.setdefault("logprobs", {"content": []})["content"] += tokens
        if ids := as_list(part.get("token_ids")):
            choice["token_ids"] = choice.get("token_ids", []) + ids

    def _take_call(self, part: Form, calls: list[Form]) -> None:
        number = part.get("index")
        known = next((call for call in calls if call["index"] == number), None)
        if known is None and (type(number) is int or part.get("id") or not calls):
            number = number if type(number) is int else len(calls)
            known = {"index": number, "id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            calls.append(known)
        known = known or calls[-1]
        function = as_form(part.get("function"))
        known["id"] = known["id"] or as_text(part.get("id"))
        for name in ("name", "arguments"):
            text = as_text(function.get(name))
            known["function"][name] += text
            self.size += len(text)


def as_chunk(reply: Form) -> Form:
    """Return a whole chat reply as one chunk: what an endpoint answers that was asked for a stream and has none."""
    choices = []
    for number, choice in enumerate(as_form(item) for item in as_list(reply.get("choices"))):
        message = as_form(choice.get("message"))
        calls = [{"index": place, **as_form(call)} for place, call in enumerate(as_list(message.get("tool_calls")))]
        delta = {**message, **({"tool_calls": calls} if calls else {})}
        rest = {name: value for name, value in choice.items() if name != "message"}
        choices.append({"index": number, **rest, "delta": delta})
    return {**reply, "object": "chat.completion.chunk", "choices": choices}


def kept_tokens(reply: Mapping[str, Any]) -> dict[str, JSON] | None:
    """Return the token ids and log-probabilities of a chat reply; None where the endpoint gave none."""
    found: dict[str, JSON] = {}
    choice = as_form(next(iter(as_list(reply.get("choices"))), None))
    if prompt := as_list(reply.get("prompt_token_ids")) or as_list(choice.get("prompt_token_ids")):
        found["prompt_ids"] = prompt
    if ids := as_list(choice.get("token_ids")):
        found["ids"] = ids
    if content := as_list(as_form(choice.get("logprobs")).get("content")):
        found["logprobs"] = content
    return found or None
