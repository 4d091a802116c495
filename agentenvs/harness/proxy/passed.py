"""Answers of APIs that the endpoint has itself: put together from their events, which pass on as they are."""

from __future__ import annotations

from typing import Protocol

from agentenvs.harness.proxy.forms import Form, as_form, as_text


class Passed(Protocol):
    """An answer while its events pass by."""

    @property
    def complete(self) -> bool:
        """Whether its last event has passed."""

    size: int
    """Characters of what was said."""

    def add(self, data: Form) -> None:
        """Take an event."""

    def reply(self) -> Form:
        """Return the answer so far."""


class PassedResponse:
    """A response: its last event holds all of it."""

    def __init__(self) -> None:
        self.size = 0
        self._form: Form = {}

    @property
    def complete(self) -> bool:
        """Whether the response has said how it ended."""
        return self._form.get("status") in ("completed", "incomplete", "failed", "cancelled")

    def add(self, data: Form) -> None:
        """Take an event."""
        self._form = as_form(data.get("response")) or self._form
        self.size += len(as_text(data.get("delta")))

    def reply(self) -> Form:
        """Return the response as it last stood."""
        return self._form


class PassedMessage:
    """A message: begun, told block by block, and closed with its usage."""

    def __init__(self) -> None:
        self.complete = False
        self.size = 0
        self._form: Form = {}
        self._blocks: dict[int, Form] = {}

    def add(self, data: Form) -> None:
        """Take an event."""
        number = data.get("index") if type(data.get("index")) is int else 0
        delta = as_form(data.get("delta"))
        match data.get("type"):
            case "message_start":
                self._form = dict(as_form(data.get("message")))
            case "content_block_start":
                self._blocks[int(number or 0)] = dict(as_form(data.get("content_block")))
            case "content_block_delta":
                self._take(self._blocks.setdefault(int(number or 0), {}), delta)
            case "message_delta":
                usage = {**as_form(self._form.get("usage")), **as_form(data.get("usage"))}
                self._form = {**self._form, **delta, "usage": usage}
            case "message_stop":
                self.complete = True

    def reply(self) -> Form:
        """Return the message so far; what tools are given stands as the text that was sent."""
        return {**self._form, "content": [self._blocks[number] for number in sorted(self._blocks)]}

    def _take(self, block: Form, delta: Form) -> None:
        for name in ("text", "thinking", "signature", "partial_json"):
            if text := as_text(delta.get(name)):
                block[name] = as_text(block.get(name)) + text
                self.size += len(text)


PASSED: dict[str, type[PassedResponse] | type[PassedMessage]] = {
    "responses": PassedResponse,
    "messages": PassedMessage,
}
"""API -> what puts its answers together."""
