"""Whose play is this? Episodes of a submission that were played exactly like those of an earlier one.

A record can be signed anew under any name, so what is compared is what was done: the scenario and every action in it.
Honest players agree now and then, where a short way is the obvious one: two of the household's own players do so in 14
% of its scenarios. A quarter of a board in common with one other contestant is no accident, nor is half of it in common
with all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentenvs.leaderboard.verifying import Played

Prints = NDArray[np.uint64]
"""Eight bytes of a digest for each episode, shape (episodes,), in order of scenario."""

FEWEST = 5
ONE, ALL, ORACLE, NOTED = 0.25, 0.5, 0.9, 0.05
"""Shares of the episodes: in common with one other, with all others together, with a player that knows the solutions;
and from which on it is noted on the page."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A row that was there before."""

    row: str
    name: str
    mine: bool
    """Of the same contestant."""
    knows: bool
    """A player that is shown the scenarios."""
    player: str | None
    """Name of the environment's own player, for an anchor."""
    plays: bytes
    records: bytes


@dataclass(frozen=True, slots=True)
class Likeness:
    """What a submission has in common with earlier ones."""

    same_as: Earlier | None = None
    """Refused: too much in common with this one."""
    shared: int = 0
    records: int = 0
    """Of them, byte for byte the same records."""
    pooled: bool = False
    """Refused: too much in common with several together."""
    notes: tuple[tuple[str, str, int], ...] = ()
    """Row, name and episodes in common, where that is worth a note."""


def prints(episodes: Sequence[Played], name: str) -> bytes:
    """Return eight bytes of a digest of each episode, in order of scenario and then of attempt.

    Args:
        episodes: Of a submission.
        name: ``actions`` or ``record``.
    """
    ordered = sorted(episodes, key=lambda one: (one.place, getattr(one, name)))
    return b"".join(bytes.fromhex(getattr(one, name)[:16]) for one in ordered)


def likeness(plays: bytes, records: bytes, earlier: Sequence[Earlier], player: str | None) -> Likeness:
    """Compare a submission with all that were there before.

    Args:
        plays: :func:`prints` of its actions.
        records: Of its records.
        earlier: Rows of the board.
        player: The environment's own player it says it is of; it is no copy of that anchor.
    """
    own, signed = _read(plays), _read(records)
    rivals = [one for one in earlier if len(one.plays) == len(plays) and not (player and one.player == player)]
    if not rivals:
        return Likeness()
    same = np.stack([_read(one.plays) for one in rivals]) == own
    counts = same.sum(axis=1)
    for place in np.argsort(-counts, kind="stable"):
        one, shared = rivals[place], int(counts[place])
        if _too_much(one, shared, len(own)):
            return Likeness(one, shared, int((_read(one.records) == signed).sum()))
    strangers = [place for place, one in enumerate(rivals) if not one.mine and not one.knows]
    together = int(same[strangers].any(axis=0).sum()) if strangers else 0
    notes = tuple(
        (one.row, one.name, int(count))
        for one, count in zip(rivals, counts, strict=True)
        if count >= max(NOTED * len(own), 2) and not one.mine
    )
    pooled = together >= max(ALL * len(own), FEWEST)
    return Likeness(shared=together, pooled=pooled, notes=tuple(sorted(notes, key=lambda note: -note[2])[:5]))


def _too_much(one: Earlier, shared: int, episodes: int) -> bool:
    if shared == episodes:
        return True
    if one.mine:
        return False
    share = ORACLE if one.knows else ONE
    return shared >= max(share * episodes, FEWEST)


def _read(data: bytes) -> Any:
    return np.frombuffer(data, dtype=np.uint64)
