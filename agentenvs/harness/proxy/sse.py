"""Server-sent events: reads those of an endpoint as their bytes arrive, and writes ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from agentenvs.core.canon import JSON

MAX_EVENT_BYTES = 1 << 20
"""Bytes of one event; a longer one is none."""

DONE = "[DONE]"


class Malformed(ValueError):
    """What arrives is no stream of events."""


class Event(NamedTuple):
    """One event: its name, empty where it has none, and its data."""

    name: str
    data: str


class Reader:
    """Turns bytes, cut anywhere, into events."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, part: bytes) -> Iterator[Event]:
        """Yield the events that are whole with these bytes.

        Raises:
            Malformed: An event does not end.
        """
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            if (event := self._line(line.rstrip(b"\r"))) is not None:
                yield event
        if len(self._rest) + self._size > MAX_EVENT_BYTES:
            raise Malformed(f"an event of more than {MAX_EVENT_BYTES} bytes")

    def end(self) -> Iterator[Event]:
        """Yield the event that the end of the stream completes, where its last line was whole."""
        if self._rest:
            yield from self.feed(b"\n")
        if (event := self._line(b"")) is not None:
            yield event

    def _line(self, line: bytes) -> Event | None:
        if not line:
            event = Event(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data, self._size = "", [], 0
            return event
        self._size += len(line)
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        return None


def event(data: JSON, name: str = "") -> bytes:
    """Return an event as bytes; ``data`` is made JSON."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode("utf-8", "replace")


LAST = f"data: {DONE}\n\n".encode()
"""How a stream of chat chunks ends."""
