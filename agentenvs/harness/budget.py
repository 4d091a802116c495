"""What a run may use: tokens, seconds, money. A run that has used it starts no more episodes, and says so.

Episodes that are being played when a budget ends play on: nothing is cut, so a budget is overrun by at most what as
many episodes use as are played at a time. What cannot be counted cannot be held: an ended episode that does not say
its tokens, or whose tokens have no known price, ends a run with such a budget.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError

EndedBy = Literal["interrupt", "tokens", "seconds", "dollars"]


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may use; None for no limit.

    Raises:
        ConfigError: A limit that is none.
    """

    tokens: int | None = None
    """Of prompts and replies, of all attempts that are on record."""
    seconds: float | None = None
    """On the wall, from here on: where a run goes on, not counting what was before."""
    dollars: Decimal | None = None
    """Of all attempts that are on record."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        for name in ("tokens", "seconds", "dollars"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 10**15:  # also NaN
                raise ConfigError(f"a budget of {value} {name} makes no sense", fix="give more than 0, or leave it out")


class Meter:
    """What a run has used so far. Callers take turns."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.ended_by: EndedBy | None = None
        self.unknown = False
        """Whether it ended because something could not be counted."""
        self._started = time.monotonic()
        self._tokens = self._micro = 0
        self._uncounted: set[str] = set()

    def add(self, usage: Mapping[str, JSON]) -> None:
        """Count an ended attempt."""
        tokens = [usage.get(name) for name in ("tokens_in", "tokens_out")]
        counted = [count for count in tokens if isinstance(count, int)]
        self._tokens += sum(counted)
        if len(counted) < len(tokens):
            self._uncounted.add("tokens")
        cost = usage.get("cost_microusd")
        if isinstance(cost, int):
            self._micro += cost
        else:
            self._uncounted.add("dollars")

    def may_start(self) -> bool:
        """Return whether another episode may be started; the first False fixes why."""
        if self.ended_by is None:
            self.ended_by = self._over()
        return self.ended_by is None

    def _over(self) -> EndedBy | None:
        budget = self.budget
        for name, limit in (("tokens", budget.tokens), ("dollars", budget.dollars)):
            if limit is not None and name in self._uncounted:
                self.unknown = True
                return "tokens" if name == "tokens" else "dollars"
        if budget.tokens is not None and self._tokens >= budget.tokens:
            return "tokens"
        if budget.dollars is not None and self._micro >= budget.dollars * 1_000_000:
            return "dollars"
        if budget.seconds is not None and time.monotonic() - self._started >= budget.seconds:
            return "seconds"
        return None

    def to_json(self) -> dict[str, JSON]:
        """Return limits and what was used, for a summary; None for what is unknown."""
        budget = self.budget
        return {
            "tokens": budget.tokens,
            "seconds": budget.seconds,
            "microusd": None if budget.dollars is None else int(budget.dollars * 1_000_000),
            "used_tokens": None if "tokens" in self._uncounted else self._tokens,
            "used_microusd": None if "dollars" in self._uncounted else self._micro,
        }

    def words(self) -> str:
        """Return why the run ended, in a few words."""
        if self.unknown:
            return f"the budget of {self.ended_by} cannot be held: an episode does not say what it used"
        return f"the budget of {self.ended_by} is used up"
