"""When the scoring changes: every entry of a board is scored again from its records, on a board of its own.

The records must still happen again to the last digest; only what is said of their worth may differ. The old board is
closed and stays as it was; the new one shows both scores.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import RowMapping, select

from agentenvs.core import registry
from agentenvs.core.errors import ConfigError
from agentenvs.leaderboard import clean
from agentenvs.leaderboard.boards import Board, machine_options, scoring_digest
from agentenvs.leaderboard.bundle import Submission
from agentenvs.leaderboard.counting import count
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.schema import boards, entries
from agentenvs.leaderboard.store import Entry, Store
from agentenvs.leaderboard.verifying import Terms


@dataclass(frozen=True, slots=True)
class Rescored:
    """What came of it."""

    board: str
    """Id of the board that has the new scores."""
    entries: int
    moved: int
    """Entries with another score than before."""
    lost: tuple[tuple[str, str], ...]
    """Entries that could not be taken over, and why."""


def rescore(store: Store, board_id: str, progress: Callable[[int, int], None] | None = None) -> Rescored:
    """Score the entries of a board again with the scoring that is installed here. May be called again after a crash.

    Raises:
        ConfigError: The scoring is the same.
        Refused: There is no such board.
    """
    old = store.board(board_id)
    new = replace(old, scoring=scoring_digest(registry.spec(old.env)))
    if old.sealed:
        raise ConfigError(f"{board_id} cannot be scored again here", why="its records are with whoever hosted it")
    if new.scoring == old.scoring:
        raise ConfigError(
            f"{board_id} has the scoring that is installed here", why="there is nothing to score again", fix="go on"
        )
    store.make(new)
    with store.reading() as connection:
        rows = connection.execute(select(entries).where(entries.c.board == board_id).order_by(entries.c.no)).mappings()
        kept = [row for row in rows.all() if row["bundle"]]
    lost, moved = [], 0
    for number, row in enumerate(kept):
        try:
            moved += _again(store, new, row)
        except Refused as refused:
            lost.append((row["id"], str(refused)))
        if progress is not None:
            progress(number + 1, len(kept))
    with store.writing() as connection:
        connection.execute(sa.update(boards).where(boards.c.id == board_id).values(open=False, successor=new.id))
    store.rank(new.id)
    return Rescored(new.id, len(kept) - len(lost), moved, tuple(lost))


def _again(store: Store, board: Board, row: RowMapping) -> bool:
    terms = Terms(anchor=row["kind"] == "anchor", regrade=True, machine=machine_options(board, store.machine))
    found = clean.verified(store.bundle_path(row["bundle"]), board, terms, store.bounds)
    counted = count(found.verified.episodes, board, found.verified.records_root.encode())
    detail = _detail(row) | {"told": dict(found.verified.told), "rescored": True}
    named = Submission(
        contestant=row["contestant"],
        agent=row["agent"],
        version=row["version"],
        contact=row["contact"],
        notes=row["notes"],
    )
    knows = bool(detail.get("knows"))
    entry = Entry(row["id"], row["kind"], row["tier"], named, counted, row["bundle"], row["player"], knows, detail)
    store.insert(board.id, board, entry)
    return counted.detail["before"] is not None


def _detail(row: RowMapping) -> dict[str, Any]:
    found = json.loads(row["detail"])
    return {name: found[name] for name in ("image", "root", "wants", "knows") if name in found}
