"""What stands beside a record: the words of an episode, what its player kept, and the task out of its first lines."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from agentenvs.core.canon import JSON
from agentenvs.view import files

_HEAD = 24_000
_TASK = 600
_MARKS = ("Your task is to: ", "Instruction: [SEP] ", "Instruction:", "Task:", "Question:")


@dataclass(frozen=True, slots=True)
class Words:
    """A sidecar, as far as it makes sense."""

    first: str | None = None
    turns: list[dict[str, JSON]] = field(default_factory=list)
    policy: dict[str, JSON] = field(default_factory=dict)
    error: str | None = None
    """What failed outside the world, with its traceback."""
    seconds: float | None = None
    why_not: str | None = None
    """Why there is none, where there is none."""


def name_of(number: int) -> str:
    """Return the file of a sidecar in its run."""
    return f"sidecars/{number:06d}.json"


def read(folder: Path, number: int) -> Words:
    """Read a sidecar; what cannot be read is empty and says why."""
    try:
        form = orjson.loads(files.read(folder, name_of(number)))
    except (files.UnreadableError, ValueError) as error:
        return Words(why_not=f"{error}" if isinstance(error, files.UnreadableError) else "the sidecar is damaged")
    if not isinstance(form, dict):
        return Words(why_not="the sidecar is damaged")
    turns = form.get("turns")
    policy = form.get("policy")
    return Words(
        first=_text(form.get("first_observation")),
        turns=[turn if isinstance(turn, dict) else {} for turn in turns] if isinstance(turns, list) else [],
        policy=policy if isinstance(policy, dict) else {} if policy is None else {"said": policy},
        error=_text(form.get("error")),
        seconds=form["wall_seconds"] if isinstance(form.get("wall_seconds"), int | float) else None,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def task(folder: Path, number: int) -> str:
    """Return the task of an episode on one line, from the head of its sidecar; empty where it is not to be had."""
    try:
        head = files.read(folder, name_of(number), _HEAD, cut=True).decode("utf-8", "replace")
    except files.UnreadableError:
        return ""
    return instruction(_first(head))


def _first(head: str) -> str:
    begin = head.find('"first_observation": "')
    if begin < 0:
        return ""
    begin += len('"first_observation": ')
    try:
        return str(json.JSONDecoder(strict=False).raw_decode(head, begin)[0])
    except ValueError:  # longer than the head
        cut = head[begin + 1 :].rstrip("\\")
        return cut.replace("\\n", "\n").replace('\\"', '"')


def instruction(first: str) -> str:
    """Return what an episode asks for, out of its first observation, on one line."""
    for mark in _MARKS:
        if mark in first:
            rest = first.partition(mark)[2].strip()
            return " ".join(rest.split("\n\n")[0].split(" [SEP] ")[0].split())[:_TASK]
    parts = [part for part in first.strip().split("\n\n") if part.strip()]
    return " ".join((parts[-1] if len(parts) > 1 else first).split())[:_TASK]
