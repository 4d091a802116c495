"""JSON out: orjson, and the standard library for what orjson cannot write (integers of more than 64 bits).

Bodies are compared byte for byte, so each value has one spelling whichever of the two writes it.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from agentenvs_servers.problems import ProblemError


def dump(value: Any) -> bytes:
    """Return the JSON of an answer."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_whole).encode()


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


def _whole(value: Any) -> Any:
    if isinstance(value, orjson.Fragment):
        return json.loads(value.contents)
    raise TypeError(f"a {type(value).__name__} is no JSON")
