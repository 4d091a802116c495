"""How exports spell JSON: equal bytes for equal values, and nothing in them that acts on a terminal.

A C0 control is escaped by JSON itself; DEL, the C1 controls, line separators and the marks that turn the direction of
text are escaped here as well: any JSON reader gives them back. Half a surrogate pair, which no reader takes, becomes a
question mark, and a number that is none becomes null.
"""

from __future__ import annotations

import json
from math import isfinite

from agentenvs.core.canon import JSON, sha256

_MARKS = (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
_ESCAPES = {code: f"\\u{code:04x}" for code in (0x7F, *range(0x80, 0xA0), *_MARKS)}


def spelled(value: JSON, *, sort: bool = False) -> str:
    """Return the JSON text of a value.

    Args:
        value: Of plain types.
        sort: Whether keys are sorted; else they stand as they were put in.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), sort_keys=sort)
    return text.translate(_ESCAPES).encode("utf-8", "replace").decode()


def mark(*parts: JSON) -> str:
    """Return 64 hexadecimal digits that name something: the same for the same parts, and for no others."""
    return sha256(spelled(list(parts), sort=True).encode())


def present(form: dict[str, JSON]) -> dict[str, JSON]:
    """Return what is there of an object: what is None is left out."""
    return {name: value for name, value in form.items() if value is not None}


def _finite(value: JSON) -> JSON:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
