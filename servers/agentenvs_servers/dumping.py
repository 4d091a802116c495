"""JSON out: orjson, and the standard library for what orjson cannot write (integers of more than 64 bits).

The answer to a turn is written once and kept as bytes, so the two need not spell a number alike.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from agentenvs_servers.problems import ProblemError


class Written:
    """JSON that is written already, to be put into more of it; unlike orjson's Fragment it can be read again."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def dump(value: Any) -> bytes:
    """Return the JSON of an answer.

    Raises:
        TypeError: It is none.
    """
    try:
        return orjson.dumps(value, _spliced)
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_read).encode()


def join(form: bytes, **more: Any) -> bytes:
    """Return a written object with further fields."""
    return form[:-1] + b"," + dump(more)[1:]


def spelled(value: Any) -> bytes:
    """Return the one spelling of a JSON value: equal for equal values, whatever their order of keys and blanks.

    Raises:
        ProblemError: ``bad_json``, where it is nested too deeply.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        pass
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except RecursionError as error:
        raise ProblemError("bad_json", "it is nested too deeply") from error


def _spliced(value: Any) -> Any:
    if isinstance(value, Written):
        return orjson.Fragment(value.data)
    raise TypeError(f"a {type(value).__name__} is no JSON")


def _read(value: Any) -> Any:
    if isinstance(value, Written):
        return json.loads(value.data)
    raise TypeError(f"a {type(value).__name__} is no JSON")
