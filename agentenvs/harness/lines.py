"""The lines of a run, read with suspicion: a folder may come from anybody."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NamedTuple, NoReturn

from agentenvs.core.canon import JSON
from agentenvs.harness.rollout import EpisodeSummary
from agentenvs.harness.summary import summary_of


class Line(NamedTuple):
    """One line, as it stands and as it is read."""

    form: dict[str, JSON]
    summary: EpisodeSummary


def read_lines(path: Path) -> list[Line]:
    """Return the lines of ``episodes.jsonl`` in order of number.

    Raises:
        OSError: It cannot be read.
        ValueError: A line is no JSON, lacks a field or has one of another kind; the message names both.
    """
    found = []
    for place, line in enumerate(path.read_bytes().splitlines(), start=1):  # of text, it would split at U+2028 as well
        try:
            found.append(read_line(line))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {place}: {error}") from error
    return sorted(found, key=lambda line: line.summary.number)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


_decode = json.JSONDecoder(parse_constant=_no_number).decode


def read_line(line: bytes) -> Line:
    """Return one line of ``episodes.jsonl``.

    Raises:
        ValueError: It is no JSON, lacks a field or has one of another kind; the message names both.
        RecursionError: It is nested too deeply.
    """
    form = _decode(line.decode())
    if type(form) is not dict:
        raise ValueError("it is no object")
    summary = summary_of(form)
    for name in ("reward", "episode_return"):
        if not math.isfinite(form[name]):
            raise ValueError(f"{name} is {form[name]}")
    return Line(form, summary)
