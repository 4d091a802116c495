"""An episode turn by turn: its record, which says what counts, beside the sidecar, which has the words.

The record is read strictly, its chain checked; where that fails, its lines are shown as far as they are JSON, with the
reason. What nothing says is left out, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from agentenvs.core.canon import JSON
from agentenvs.core.errors import RecordError
from agentenvs.core.record import Record, parse_records
from agentenvs.view import files, sidecars, text
from agentenvs.view.sidecars import Words

TURNS = 200
"""Turns on a page."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool."""

    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Block:
    """A part of an observation."""

    kind: str
    """``text``, ``data`` or ``image``."""
    text: str
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a model, as its player kept it."""

    said: str
    raw: str
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    seconds: float | None
    failure: str | None
    repaired: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """What playing an episode again shows of a turn, from inside."""

    observed: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    milestones: tuple[str, ...] = ()
    potential: float | None = None
    change: float | None = None
    """Of the potential, by this turn."""
    changed: bool = False
    """Whether the world is another one than before."""
    admissible: int | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn."""

    number: int
    action: JSON
    kind: str
    """``text``, ``tool``, ``calls``, ``message``, ``end`` or ``malformed``."""
    calls: tuple[Call, ...]
    words: str
    """What was said: a text action, a message, what stands beside calls."""
    blocks: tuple[Block, ...] | None
    """What was seen next; None where no words were kept."""
    reward: float
    valid: bool
    error: str | None
    effects: int
    asked: tuple[Asked, ...] = ()
    seen: Seen | None = None

    @property
    def brief(self) -> str:
        """The action on one line."""
        if self.kind == "malformed" and isinstance(self.action, dict):
            return text.line(text.brief(self.action.get("malformed")))
        if self.calls:
            return text.line("; ".join(f"{call.tool}({' '.join(call.arguments.split())})" for call in self.calls))
        return text.line(self.words or text.brief(self.action))

    @property
    def seen_brief(self) -> str:
        """The beginning of what was seen, on one line."""
        return text.line(self.blocks[0].text, 110) if self.blocks else ""

    @property
    def notable(self) -> bool:
        """Whether it is opened from the start."""
        return not self.valid or self.reward != 0.0 or any(one.failure for one in self.asked)

    @property
    def tokens(self) -> tuple[int, int] | None:
        """Tokens of its model calls, in and out."""
        known = [(one.tokens_in or 0, one.tokens_out or 0) for one in self.asked]
        return (sum(a for a, _ in known), sum(b for _, b in known)) if known else None


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode."""

    number: int
    header: Mapping[str, JSON]
    first: tuple[Block, ...] | None
    turns: list[Turn]
    footer: Mapping[str, JSON] | None
    words: Words
    record: Record | None
    damage: list[str] = field(default_factory=list)
    raw_size: int = 0

    @property
    def verdict(self) -> dict[str, Any]:
        """The verdict's parts, as far as they are of their kind."""
        found = (self.footer or {}).get("verdict")
        return found if isinstance(found, dict) else {}

    @property
    def task(self) -> str:
        """The task on one line."""
        return sidecars.instruction(self.first[0].text) if self.first else ""

    @property
    def scenario(self) -> tuple[str, int]:
        """Split and index."""
        task = self.header.get("task")
        if isinstance(task, dict) and isinstance(task.get("index"), int):
            return str(task.get("split")), task["index"]
        return "", -1

    def with_seen(self, first: tuple[Block, ...], seen: Sequence[tuple[tuple[Block, ...], Seen]]) -> Episode:
        """Return it with what playing it again showed."""
        turns = [
            replace(turn, blocks=seen[place][0], seen=seen[place][1]) if place < len(seen) else turn
            for place, turn in enumerate(self.turns)
        ]
        return replace(self, first=first, turns=turns)


def record_name(number: int) -> str:
    """Return the file of a record in its run."""
    return f"records/{number:06d}.jsonl"


def read(folder: Path, number: int) -> Episode | None:
    """Read an episode; None where nothing is kept of it."""
    words = sidecars.read(folder, number)
    damage: list[str] = []
    record: Record | None = None
    lines: list[dict[str, Any]] = []
    size = 0
    try:
        data = files.read(folder, record_name(number))
        size = len(data)
        record = parse_records(data, record_name(number))[0]
        lines = [dict(record.header), *map(dict, record.turns), *([dict(record.footer)] if record.footer else [])]
    except files.UnreadableError as error:
        damage.append(str(error))
        if words.why_not:
            return None
    except RecordError as error:
        damage.append(f"{error.what}{f': {error.why}' if error.why else ''}")
        lines = _lenient(data)
    if words.why_not:
        damage.append(words.why_not)
    header = next((line for line in lines if line.get("kind") == "header"), {})
    footer = next((line for line in lines if line.get("kind") == "footer"), None)
    played = [line for line in lines if line.get("kind") == "turn"]
    count = max(len(played), len(words.turns) if not played else 0)
    asked = _asked(words.policy)
    turns = [
        _turn(
            place + 1, played[place] if place < len(played) else {}, _at(words.turns, place), asked.get(place + 1, ())
        )
        for place in range(count)
    ]
    first = None if words.first is None else _blocks(words.first)
    return Episode(number, header, first, turns, footer, words, record, damage, size)


def _lenient(data: bytes) -> list[dict[str, Any]]:
    found = []
    for line in data.split(b"\n"):
        try:
            form = orjson.loads(line)
        except ValueError:
            continue
        if isinstance(form, dict):
            found.append(form)
    return found


def _at(turns: Sequence[dict[str, JSON]], place: int) -> dict[str, JSON]:
    return turns[place] if place < len(turns) else {}


def _turn(number: int, line: Mapping[str, Any], words: Mapping[str, Any], asked: tuple[Asked, ...]) -> Turn:
    action = line["action"] if "action" in line else words.get("action")
    kind, calls, said = _read(action)
    seen = words.get("observation")
    valid = line.get("valid", not words.get("invalid", False))
    effects = line.get("effects")
    reward = line.get("reward", words.get("reward"))
    return Turn(
        number,
        action,
        kind,
        calls,
        said,
        _blocks(seen) if isinstance(seen, str) else None,
        float(reward) if isinstance(reward, int | float) else 0.0,
        bool(valid),
        None if line.get("error") is None else str(line["error"]),
        len(effects) if isinstance(effects, list) else 0,
        asked,
    )


def _read(action: JSON) -> tuple[str, tuple[Call, ...], str]:
    """Return kind, calls and words of an action, which may be anything."""
    if isinstance(action, str):
        return "text", (), action
    if isinstance(action, dict):
        if "tool" in action:
            return "tool", (_call(action),), ""
        if isinstance(calls := action.get("calls"), list):
            return (
                "calls",
                tuple(_call(call) for call in calls if isinstance(call, dict)),
                str(action.get("text") or ""),
            )
        for kind in ("message", "end"):
            if kind in action:
                return kind, (), text.spelled(action[kind])
        if "malformed" in action:
            return "malformed", (), str(action.get("why") or "")
    return "malformed", (), ""


def _call(form: Mapping[str, Any]) -> Call:
    arguments = form.get("arguments")
    return Call(str(form.get("tool")), text.spelled(arguments if arguments is not None else {}))


def _blocks(seen: str) -> tuple[Block, ...]:
    """Return an observation whose words were kept; its parts are known only from playing it again."""
    data = text.as_data(seen)
    return (Block("data" if data != seen else "text", data),)


def _asked(policy: Mapping[str, Any]) -> dict[int, tuple[Asked, ...]]:
    """Return what a player kept of its model calls, by turn."""
    model = policy.get("model")
    calls = policy.get("calls") or (model.get("calls") if isinstance(model, dict) else None)
    found: dict[int, list[Asked]] = {}
    for place, call in enumerate(calls if isinstance(calls, list) else []):
        if isinstance(call, dict):
            turn = call.get("turn")
            found.setdefault(turn if isinstance(turn, int) else place + 1, []).append(_of_model(call))
    return {turn: tuple(made) for turn, made in found.items()}


def _of_model(call: Mapping[str, Any]) -> Asked:
    said = call.get("said")
    content = said.get("content") if isinstance(said, dict) else None
    raw = call.get("raw", call.get("error"))
    failure = call.get("failure") or call.get("fault")
    if call.get("error"):
        failure = failure or "service"
    seconds = call.get("seconds")
    return Asked(
        "" if content is None else text.spelled(content),
        "" if raw is None else text.as_data(text.spelled(raw)),
        _count(call.get("tokens_in")),
        _count(call.get("tokens_out")),
        _count(call.get("tokens_cached")),
        seconds if isinstance(seconds, int | float) else None,
        None if failure is None else str(failure),
        bool(call.get("repaired")),
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int else None
