"""The lines of a run, read with suspicion: a folder may come from anybody."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from agentenvs.core.canon import JSON


def read_lines(path: Path) -> list[dict[str, JSON]]:
    """Return the lines of ``episodes.jsonl`` in order of number.

    Raises:
        OSError: It cannot be read.
        ValueError: A line is no JSON, lacks a field or has one of another kind; the message names both.
    """
    episodes = []
    for place, line in enumerate(path.read_bytes().splitlines(), start=1):  # of text, it would split at U+2028 as well
        try:
            episode = _decode(line.decode())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {place}: {error}") from error
        _check(episode, place)
        episodes.append(episode)
    return sorted(episodes, key=lambda episode: episode["number"])


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


_decode = json.JSONDecoder(parse_constant=_no_number).decode


def _of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


def _amount(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


_label = _of(str, int, float, bool, type(None))
_FIELDS: dict[str, Callable[[Any], bool]] = {
    "number": _of(int),
    "split": _of(str),
    "index": _of(int),
    "scenario_digest": _of(str, type(None)),
    "kind": _label,
    "par": _of(int, float, type(None)),
    "ending": _of(str),
    "success": _of(bool),
    "reward": _amount,
    "episode_return": _amount,
    "turns": _of(int),
    "invalid": _of(int),
}
_OPTIONAL: dict[str, Callable[[Any], bool]] = {
    "error": _of(str, type(None)),
    "difficulty": _label,
    "fault": _of(str, type(None)),
    "usage": _of(dict),
    "metrics": _of(dict),
}


def _check(episode: Any, place: int) -> None:
    if type(episode) is not dict:
        raise ValueError(f"line {place} is no object")
    for name, right in _FIELDS.items():
        if name not in episode:
            raise ValueError(f"line {place} has no {name}")
        if not right(episode[name]):
            raise ValueError(f"line {place}: {name} is {str(episode[name])[:60]!r}")
    for name, right in _OPTIONAL.items():
        if name in episode and not right(episode[name]):
            raise ValueError(f"line {place}: {name} is {str(episode[name])[:60]!r}")
