"""Small readings that several formats share: arguments of a call, dollars, moments of time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agentenvs.adapters.exports.reading import number
from agentenvs.core.canon import JSON


def arguments_of(call: Mapping[str, Any]) -> dict[str, JSON]:
    """Return the arguments of a tool call as an object; what is none stands under ``raw``."""
    text = call["function"]["arguments"]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"raw": text}


def tokens_of(usage: Mapping[str, Any], name: str) -> int | None:
    """Return a count of what was used; None where it is not known, or is none."""
    value = number(usage.get(name))
    return None if value is None else int(value)


def cost_of(usage: Mapping[str, Any]) -> float | None:
    """Return the dollars of an episode; None where they are not known."""
    micro = number(usage.get("cost_microusd"))
    return None if micro is None else float(micro / 1_000_000)


def begun(created: str) -> int:
    """Return when a run began, in nanoseconds since 1970; 0 where its manifest names no time."""
    try:
        moment = datetime.fromisoformat(created.replace("Z", "+00:00"))
    except ValueError:
        return 0
    if moment.tzinfo is None or moment.year < 1970:
        return 0
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000


def nanoseconds(seconds: float | None) -> int:
    """Return a measured time; 0 where it is not known."""
    return 0 if seconds is None else round(min(seconds, 1e9) * 1e9)
