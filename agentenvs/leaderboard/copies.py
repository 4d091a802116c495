"""Whose play is this? Episodes of a submission that were played exactly like those of an earlier one.

A record can be signed anew under any name, so what is compared is what was done: the scenario and every action in it.
Honest players agree now and then, where a short way is the obvious one: two of the household's own players do so in 14
% of its scenarios. A quarter of a board in common with one other contestant is no accident, nor is half of it in common
with all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agentenvs.leaderboard.verifying import Played

FEWEST = 5
ONE, PADDED, ALL, ORACLE, NOTED = 0.25, 0.5, 0.5, 0.9, 0.05
"""Shares of the episodes: in common with one other; the same but for turns that changed nothing; in common with all
others together, with a player that knows the solutions; and from which on it is noted on the page."""


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
    actions: bytes
    moves: bytes
    records: bytes


@dataclass(frozen=True, slots=True)
class Likeness:
    """What a submission has in common with earlier ones."""

    same_as: Earlier | None = None
    """Refused: too much in common with this one."""
    shared: int = 0
    records: int = 0
    """Of them, byte for byte the same records."""
    padded: bool = False
    """Whether only what changed the world is in common."""
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


class Marks(Protocol):
    """The digests of a submission's play."""

    @property
    def actions(self) -> bytes:
        """:func:`prints` of all that was done."""

    @property
    def moves(self) -> bytes:
        """Of what changed the world."""

    @property
    def records(self) -> bytes:
        """Of its records."""


def likeness(mine: Marks, earlier: Sequence[Earlier], player: str | None) -> Likeness:
    """Compare a submission with all that were there before.

    Args:
        mine: The submission.
        earlier: Rows of the board.
        player: The environment's own player it says it is of: it is no copy of that anchor, unless that one is shown
            the solutions.
    """
    number = len(mine.actions) // 8
    own = [one for one in earlier if len(one.actions) == len(mine.actions)]
    rivals = [one for one in own if one.knows or not (player and one.player == player)]
    if not rivals:
        return Likeness()
    same = _same([one.actions for one in rivals], mine.actions)
    moved = _same([one.moves for one in rivals], mine.moves)
    for padded, table in ((False, same), (True, moved)):
        counts = table.sum(axis=1)
        for place in np.argsort(-counts, kind="stable"):
            one, shared = rivals[place], int(counts[place])
            if _too_much(one, shared, number, padded=padded):
                signed = int(_same([one.records], mine.records).sum())
                return Likeness(one, shared, signed, padded)
    strangers = [place for place, one in enumerate(rivals) if not one.mine and not one.knows]
    together = int(same[strangers].any(axis=0).sum()) if strangers else 0
    notes = tuple(
        (one.row, one.name, int(count))
        for one, count in zip(rivals, same.sum(axis=1), strict=True)
        if count >= max(NOTED * number, 2) and not one.mine
    )
    pooled = together >= max(ALL * number, FEWEST)
    return Likeness(shared=together, pooled=pooled, notes=tuple(sorted(notes, key=lambda note: -note[2])[:5]))


def _too_much(one: Earlier, shared: int, episodes: int, *, padded: bool) -> bool:
    if shared == episodes:
        return not (padded and one.mine)
    if one.mine:
        return False
    share = ORACLE if one.knows else PADDED if padded else ONE
    return shared >= max(share * episodes, FEWEST)


def _same(rows: Sequence[bytes], mine: bytes) -> NDArray[np.bool_]:
    """Return which episodes of each row are those of a submission, shape (rows, episodes)."""
    found: NDArray[np.bool_] = np.stack([np.frombuffer(row, dtype=np.uint64) for row in rows]) == np.frombuffer(
        mine, dtype=np.uint64
    )
    return found
