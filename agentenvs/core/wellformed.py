"""What the lines of a record hold, field by field, so that whoever reads one need not doubt its form.

A hash chain says that a record was not changed after it was written, not that it was written in good faith: anybody can
compute one. So every field has its type here, and what would spare a record its checks (an environment that failed) is
believed only where it earned nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from agentenvs.core.canon import JSON
from agentenvs.core.verdict import ENDINGS

Test: TypeAlias = Callable[[JSON], bool]


def _is(*kinds: type | None) -> Test:
    types = [type(None) if kind is None else kind for kind in kinds]
    return lambda value: type(value) in types


def _list_of(test: Test) -> Test:
    return lambda value: type(value) is list and all(map(test, value))


def _object(**fields: Test) -> Test:
    return lambda value: type(value) is dict and _missing(value, fields) is None


def _number(value: JSON) -> bool:
    return (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < 2**53)


def _components(value: JSON) -> bool:
    return type(value) is dict and all(map(_number, value.values()))


def _missing(line: Mapping[str, JSON], fields: Mapping[str, Test]) -> str | None:
    """Return the first field that is not there or not as it should be."""
    return next((name for name, test in fields.items() if name not in line or not test(line[name])), None)


_EFFECTS = _list_of(_object(kind=_is(str), value=lambda value: True))
_VERDICT = _object(
    reward=_number, success=_is(bool), components=_components, reasons=_list_of(_is(str)), facts=_is(dict)
)

_FIELDS: dict[str, dict[str, Test]] = {
    "header": {
        "env": _is(str),
        "release": _is(str),
        "since": _is(str),
        "spec": _is(str),
        "options": _is(dict),
        "task": _object(split=_is(str), index=_is(int)),
        "scenario": _is(str, None),
        "privileged": _is(bool),
        "library": _is(str, None),
        "forked_from": _is(dict, None),
        "observation": _is(str, None),
        "state": _is(str, None),
        "effects": _EFFECTS,
    },
    "turn": {
        "turn": _is(int),
        "action": lambda value: True,
        "valid": _is(bool),
        "error": _is(str, None),
        "observation": _is(str),
        "reward": _number,
        "state": _is(str),
        "effects": _EFFECTS,
    },
    "footer": {
        "ending": lambda value: value in ENDINGS,
        "turns": _is(int),
        "return": _number,
        "verdict": _VERDICT,
    },
}


_OPTIONAL: dict[str, Test] = {"redacted": _is(bool), "failed": _is(bool)}
"""Fields that need not be there, but say plainly yes or no where they are: each spares a record some check."""


def fault(lines: Sequence[Mapping[str, JSON]]) -> tuple[int, str] | None:
    """Return the first line that is not as it should be, by position, and what is wrong with it; None for none.

    Args:
        lines: A header, turns counted from 1, perhaps a footer.
    """
    for position, line in enumerate(lines):
        asked = {name: test for name, test in _OPTIONAL.items() if name in line}
        if (name := _missing(line, _FIELDS[line["kind"]] | asked)) is not None:
            return position, f"the field {name!r} of its {line['kind']} is missing or of another form"
    header, last = lines[0], lines[-1]
    failed = last["kind"] == "footer" and last.get("failed") is True
    if header["observation"] is None and not (failed and len(lines) == 2):
        return 0, "only an environment that failed at once shows nothing"
    if failed and not (
        last["ending"] == "aborted" and last["verdict"]["reward"] <= 0 and not last["verdict"]["success"]
    ):
        return len(lines) - 1, "an environment that failed has earned nothing"
    return None
