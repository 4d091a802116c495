"""The same scenarios, played by each run.

A scenario is ``(split, index)``, and its digest must be the same in every run that knows it (an environment that failed
before its first observation does not). All episodes of a scenario count: those that failed are losses. What a run has
beside the scenarios that all played is an error, unless it is asked to be left out, and then it is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentenvs.core.canon import JSON
from agentenvs.core.errors import DataError
from agentenvs.core.portable import total

if TYPE_CHECKING:
    from agentenvs.harness.report import Run

Address = tuple[str, int]

_LABELS = ("kind", "difficulty", "par")
_PAR_EDGES = (5, 10, 20, 40)


@dataclass(frozen=True, slots=True)
class Column:
    """What one run made of each scenario, in order."""

    won: list[int]
    attempts: list[int]
    rates: list[float]
    """Share of the attempts that were won."""
    rewards: list[float]
    """Mean over the attempts."""
    left_out: int
    """Episodes of scenarios that not all played."""


@dataclass(frozen=True, slots=True)
class Paired:
    """Scenarios and columns."""

    scenarios: list[Address]
    groups: dict[str, list[str | None]]
    """Of each scenario: its kind, difficulty, length of the shortest solution, as far as known."""
    columns: list[Column]

    @property
    def single(self) -> bool:
        """Whether each run played each scenario once."""
        return all(count == 1 for column in self.columns for count in column.attempts)


def pair(runs: Sequence[Run], *, only_common: bool = False) -> Paired:
    """Lay runs side by side, scenario by scenario.

    Args:
        runs: At least one.
        only_common: Compare the scenarios that all have, and count what that leaves out.

    Raises:
        DataError: They did not play the same scenarios, or none in common.
    """
    played = [_played(run) for run in runs]
    common = [address for address in sorted(played[0]) if all(address in one for one in played)]
    _check_digests(runs, played, common)
    if not only_common and any(len(one) != len(common) for one in played):
        _refuse(runs, [len(one) for one in played], len(common))
    if not common:
        raise DataError(
            "these runs have no scenario in common", why=_counts(runs, played), fix="play the same scenarios with both"
        )
    return Paired(common, _groups(played, common), [_column(one, common) for one in played])


def _played(run: Run) -> dict[Address, list[dict[str, JSON]]]:
    found: dict[Address, list[dict[str, JSON]]] = {}
    for episode in run.episodes:
        found.setdefault((episode["split"], episode["index"]), []).append(episode)
    return found


def _check_digests(
    runs: Sequence[Run], played: Sequence[dict[Address, list[dict[str, JSON]]]], common: Sequence[Address]
) -> None:
    for address in common:
        known = [{episode["scenario_digest"] for episode in one[address]} - {None} for one in played]
        if len(set().union(*known)) > 1:
            names = " and ".join(str(run.folder) for run, digests in zip(runs, known, strict=True) if digests)
            raise DataError(
                f"{address[0]}/{address[1]} is not the same scenario in {names}",
                why="its digests differ: other data, another generator or other options made it",
                fix="play both with one version and the same data",
            )


def _refuse(runs: Sequence[Run], counts: Sequence[int], common: int) -> None:
    short = [str(run.folder) for run in runs if not run.manifest.complete]
    why = ", ".join(f"{run.folder}: {count}" for run, count in zip(runs, counts, strict=True))
    if short:
        fix = f"{' and '.join(short)} did not come to an end: go on with it (`agentenvs eval --resume`)"
        caution = ", which flatters whoever is slow at what is hard"
    else:
        fix, caution = "play the same scenarios with both", ""
    raise DataError(
        "these runs did not play the same scenarios",
        why=f"{why}; in common: {common}",
        fix=f"{fix}, or compare what both played{caution}: --only-common" if common else fix,
    )


def _counts(runs: Sequence[Run], played: Sequence[dict[Address, list[dict[str, JSON]]]]) -> str:
    return ", ".join(f"{run.folder} has {len(one)}" for run, one in zip(runs, played, strict=True))


def _column(played: dict[Address, list[dict[str, JSON]]], common: Sequence[Address]) -> Column:
    chosen = [played[address] for address in common]
    won = [sum(bool(episode["success"]) for episode in episodes) for episodes in chosen]
    return Column(
        won,
        [len(episodes) for episodes in chosen],
        [count / len(episodes) for count, episodes in zip(won, chosen, strict=True)],
        [total(episode["reward"] for episode in episodes) / len(episodes) for episodes in chosen],
        sum(len(episodes) for episodes in played.values()) - sum(map(len, chosen)),
    )


def _groups(
    played: Sequence[dict[Address, list[dict[str, JSON]]]], common: Sequence[Address]
) -> dict[str, list[str | None]]:
    """Return the labels of each scenario, from whichever run knows them; those that tell nothing apart are left out."""
    found: dict[str, list[str | None]] = {}
    for name in _LABELS:
        values = [
            next(
                (value for one in played for episode in one[address] if (value := episode.get(name)) is not None), None
            )
            for address in common
        ]
        shown = [_par(value) for value in values] if name == "par" else [_text(value) for value in values]
        if len({value for value in shown if value is not None}) > 1:
            found[name] = shown
    return found


def _text(value: JSON) -> str | None:
    return None if value is None else str(value)


def _par(value: JSON) -> str | None:
    if value is None:
        return None
    low = 1
    for edge in _PAR_EDGES:
        if value <= edge:
            return f"par {low}-{edge}"
        low = edge + 1
    return f"par {low}+"
