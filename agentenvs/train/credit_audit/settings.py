"""What an audit does: how many episodes, how many continuations of each turn, and what it may cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from agentenvs.core.errors import ConfigError

_KINDS = ("continuations", "tokens", "cpu")


@dataclass(frozen=True, slots=True)
class Budget:
    """What continuations may cost in all; where it is spent, the audit ends with the episodes it has. None: no bound.

    The audit looks between episodes, so that the last one is finished and none is left out for being long.
    """

    continuations: int | None = None
    """Continuations that are played; those whose end is known are free."""
    tokens: int | None = None
    """Tokens that are sampled in them."""
    cpu: float | None = None
    """Processor seconds; what is reached in them depends on the machine."""

    def spent(self, continuations: int, tokens: int, cpu: float) -> str | None:
        """Return which bound is reached, in words; None where none is."""
        for name, used in (("continuations", continuations), ("tokens", tokens), ("cpu", cpu)):
            bound = getattr(self, name)
            if bound is not None and used >= bound:
                return f"{name} {bound:g}"
        return None


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Settings of an audit.

    Raises:
        ConfigError: A number makes no sense.
    """

    episodes: int = 64
    group_size: int = 8
    branches: int = 16
    """Continuations of each turn; even, so that they can be cut into halves."""
    methods: tuple[str, ...] = ()
    """All where empty."""
    budget: Budget = field(default_factory=Budget)
    warmup: int = 2
    """Rounds of other episodes of the same scenarios from which critics, trackers and graphs learn before they are
    asked."""
    passes: int = 4
    """How often what is trained (a critic) goes over each of these rounds."""
    top: float = 0.1
    """The share of turns that the overlap looks at."""
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.group_size < 1 or self.episodes < self.group_size or self.episodes % self.group_size:
            raise ConfigError(
                f"{self.episodes} episodes are not groups of {self.group_size}",
                fix="give a multiple of the size of a group",
            )
        if self.branches < 2 or self.branches % 2:
            raise ConfigError(f"{self.branches} branches cannot be halved", fix="give an even number, 2 or more")
        if not 0 < self.top <= 0.5:
            raise ConfigError(f"a top share of {self.top} makes no sense", fix="give one above 0, at most 0.5")
        if self.resamples < 40 or self.warmup < 0 or self.passes < 1:
            raise ConfigError("the audit's numbers make no sense", fix="resamples 40 or more, warmup 0, passes 1")

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


def budget(said: Sequence[str]) -> Budget:
    """Read a budget from words: ``20000`` or ``continuations=20000``, ``tokens=1000000``, ``cpu=300``.

    Raises:
        ConfigError: A word is none of these.
    """
    found: dict[str, Any] = {}
    for word in said:
        name, equals, number = word.rpartition("=")
        name = name if equals else "continuations"
        if name not in _KINDS or not re.fullmatch(r"\d+(\.\d+)?", number) or float(number) <= 0:
            raise ConfigError(f"no budget {word!r}", fix=f"NUMBER, or one of {', '.join(_KINDS)} with =NUMBER")
        found[name] = float(number) if name == "cpu" else int(float(number))
    return Budget(**found)
