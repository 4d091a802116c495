"""Two runs against each other: the paired difference, the scenarios whose outcome flipped, and turns side by side.

The comparison is :func:`agentenvs.harness.compare.compare`, made over rows of the indexes in the background and kept
until one of the runs changes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentenvs.core.canon import canonical
from agentenvs.core.errors import AgentEnvsError
from agentenvs.harness.compare import Comparison, Difference, compare
from agentenvs.harness.report import Run
from agentenvs.harness.statistics import RESAMPLES
from agentenvs.view.episodes import Episode, Turn
from agentenvs.view.finding import Found

FLIPS = 50
"""Scenarios on a page."""
_KEPT = 16
_FEWER_RESAMPLES = 2_000
_MANY = 20_000
_NEEDED = (
    'SELECT number, split, "index" AS "index", scenario, scenario_digest, kind, difficulty, par, ending, success, '
    "reward, fault, error FROM episodes ORDER BY number"
)


@dataclass(frozen=True, slots=True)
class Flip:
    """A scenario that the two did not make the same of."""

    split: str
    index: int
    scenario: str
    family: str | None
    first: float
    second: float
    """Shares of the attempts that were won."""
    numbers: tuple[int, int]
    """An episode of each: one that shows the difference."""


@dataclass(frozen=True, slots=True)
class Paired:
    """What comes of two runs."""

    found: Comparison | None
    flips: list[Flip]
    common: int
    why_not: str | None = None
    fix: str | None = None
    partial: bool = False
    """Whether only what both played was compared."""

    @property
    def whole(self) -> Difference | None:
        """The difference in all."""
        return self.found.pairs[0].whole if self.found else None

    @property
    def groups(self) -> dict[str, list[Difference]]:
        """Differences by kind, difficulty and length."""
        return self.found.pairs[0].groups if self.found else {}


@dataclass
class Desk:
    """Makes comparisons in the background and keeps some."""

    _made: dict[Any, Paired] = field(default_factory=dict)
    _working: dict[Any, threading.Thread] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def pair(self, first: Found, second: Found, wait: float) -> Paired | None:
        """Return a comparison; None where it is still being made after so many seconds."""
        key = (first.name, second.name, first.index.revision, second.index.revision)
        with self._lock:
            if key in self._made:
                return self._made[key]
            thread = self._working.get(key)
            if thread is None:
                thread = threading.Thread(target=self._make, args=(key, first, second), daemon=True)
                self._working[key] = thread
                thread.start()
        thread.join(wait)
        with self._lock:
            return self._made.get(key)

    def _make(self, key: Any, first: Found, second: Found) -> None:
        try:
            made = paired(first, second)
        except Exception as error:  # noqa: BLE001 - boundary: rows may come from anybody
            made = Paired(None, [], 0, f"the comparison failed: {type(error).__name__}: {error}")
        with self._lock:
            self._working.pop(key, None)
            while len(self._made) >= _KEPT:
                self._made.pop(next(iter(self._made)))
            self._made[key] = made


def paired(first: Found, second: Found) -> Paired:
    """Compare two runs from their indexes, which are up to date."""
    rows = [[dict(row) for row in one.index.ask(_NEEDED)] for one in (first, second)]
    flips, common = _flips(*rows) if first.facts.env == second.facts.env else ([], 0)
    if first.facts.manifest is None or second.facts.manifest is None:
        why = "a run that has not ended has no manifest, which says what may be compared"
        return Paired(None, flips, common, why, "wait for its end, or go on with it: agentenvs eval --resume RUN")
    for some in rows:
        for row in some:
            row["success"] = bool(row["success"])
    runs = [
        Run(one.folder, one.facts.manifest, {}, some)
        for one, some in zip((first, second), rows, strict=True)
        if one.facts.manifest is not None
    ]
    try:
        return Paired(_compared(runs, only_common=False), flips, common)
    except AgentEnvsError as error:
        refused = error
    try:
        return Paired(_compared(runs, only_common=True), flips, common, refused.why or refused.what, None, partial=True)
    except AgentEnvsError:
        return Paired(None, flips, common, refused.why or refused.what, refused.fix)


def _compared(runs: Sequence[Run], *, only_common: bool) -> Comparison:
    many = max(len(run.episodes) for run in runs) > _MANY
    return compare(runs, only_common=only_common, resamples=_FEWER_RESAMPLES if many else RESAMPLES)


def _flips(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> tuple[list[Flip], int]:
    """Return the scenarios with different outcomes, largest loss of the second first, and how many both played."""
    sides = [_by_scenario(rows) for rows in (first, second)]
    common = [address for address in sides[0] if address in sides[1]]
    found = []
    for address in common:
        one, two = sides[0][address], sides[1][address]
        shares = [sum(bool(row["success"]) for row in rows) / len(rows) for rows in (one, two)]
        if shares[0] != shares[1]:
            up = shares[1] > shares[0]
            chosen = (_showing(one, won=not up), _showing(two, won=up))
            row = one[0]
            found.append(Flip(*address, row["scenario"], row["kind"], shares[0], shares[1], chosen))
    found.sort(key=lambda flip: (flip.second - flip.first, flip.split, flip.index))
    return found, len(common)


def _by_scenario(rows: list[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["split"], row["index"]), []).append(row)
    return found


def _showing(rows: Sequence[dict[str, Any]], *, won: bool) -> int:
    return int(next((row for row in rows if bool(row["success"]) == won), rows[0])["number"])


# ---- two episodes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """The same turn of two episodes."""

    number: int
    first: Turn | None
    second: Turn | None
    same: bool
    """Whether both played the same, and so did all turns before."""
    breaks: bool
    """Whether it is the first where they differ."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """Two episodes, turn by turn."""

    rows: list[Row]
    breaks_at: int | None
    """The first turn in which they differ; None where they never do."""
    why: str
    """What differs there, in words."""
    same_scenario: bool


def align(one: Episode, other: Episode) -> Aligned:
    """Lay two episodes side by side.

    A world is deterministic, so until the first turn that is played differently everything is the same.
    """
    rows: list[Row] = []
    breaks_at: int | None = None
    for place in range(max(len(one.turns), len(other.turns))):
        first = one.turns[place] if place < len(one.turns) else None
        second = other.turns[place] if place < len(other.turns) else None
        same = breaks_at is None and first is not None and second is not None and _key(first) == _key(second)
        breaks = not same and breaks_at is None
        if breaks:
            breaks_at = place + 1
        rows.append(Row(place + 1, first, second, same, breaks))
    return Aligned(rows, breaks_at, _why(rows, breaks_at), _same_scenario(one, other))


def _key(turn: Turn) -> str:
    return canonical(turn.action)


def _why(rows: Sequence[Row], at: int | None) -> str:
    if at is None:
        return "both played the same turns"
    row = rows[at - 1]
    if row.first is None or row.second is None:
        return f"the {'first' if row.first is None else 'second'} had ended before turn {at}"
    if row.first.valid != row.second.valid:
        return f"at turn {at} they play differently, and only one of the actions is valid"
    return f"at turn {at} they play differently"


def _same_scenario(one: Episode, other: Episode) -> bool:
    keys = [(episode.header.get("env"), episode.header.get("scenario"), *episode.scenario) for episode in (one, other)]
    return keys[0] == keys[1]
