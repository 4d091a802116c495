"""What a client may be told about patience."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError

WIRES = ("auto", "socket", "http")

_CHOICES = {"durability": ("group", "strict", "memory"), "records": ("keep", "drop")}
_LEAST = {"timeout": 0.001, "retries": 0, "backoff": 0, "max_wait": 0, "patience": 0, "ttl": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How long a client waits, and how often it asks again.

    Raises:
        ConfigError: A number that makes no sense.
    """

    wire: Literal["auto", "socket", "http"] = "auto"
    """How requests travel: over one socket that all sessions with a server share, or each over HTTP. ``auto`` takes
    HTTP where a server, or what stands before it, takes no sockets; ``socket`` does not."""
    timeout: float = 60.0
    """Seconds an attempt may take, from the first byte sent to the last one read."""
    retries: int = 6
    """Attempts after the first."""
    backoff: float = 0.1
    """Seconds before the second attempt; doubled each time, and spread."""
    max_wait: float = 5.0
    """Seconds of the longest wait between attempts, whatever a server asks for."""
    patience: float = 120.0
    """Seconds to go on asking, beyond all ``retries``, a server that has answered before and is away, stopping or full:
    so long may a restart take without costing an episode."""
    ttl: int | None = None
    """Seconds a session may be idle before the server ends it; the server's own where None."""
    durability: Literal["group", "strict", "memory"] | None = None
    """What sessions survive: ``group`` a killed server, ``strict`` a loss of power too, ``memory`` nothing, at no
    price; the server's own where None."""
    records: Literal["keep", "drop"] | None = None
    """``drop``: the server forgets the records of a session when it is closed; of sessions in memory alone."""

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        if self.wire not in WIRES:
            raise ConfigError(f"wire {self.wire!r} makes no sense", fix=f"one of: {', '.join(WIRES)}")
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) is not None and value not in choices:
                raise ConfigError(f"{name} {value!r} makes no sense", fix=f"one of: {', '.join(choices)}")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is None and name == "ttl":
                continue
            kinds = (int,) if name in ("retries", "ttl") else (int, float)
            if type(value) not in kinds or not math.isfinite(value) or value < least:
                raise ConfigError(f"{name} {value!r} makes no sense", fix=f"the least is {least}")

    @property
    def life(self) -> dict[str, JSON]:
        """What creates say of the life of their sessions."""
        asked: dict[str, JSON] = {"ttl": self.ttl, "durability": self.durability, "records": self.records}
        return {name: value for name, value in asked.items() if value is not None}
