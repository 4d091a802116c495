"""What pages and programs ask of a store: boards, a page of entries, one entry, refusals, the queue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, RowMapping, func, select

from agentenvs.core.canon import JSON
from agentenvs.leaderboard import texts
from agentenvs.leaderboard.boards import Board
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.schema import boards, entries, queue, refusals
from agentenvs.leaderboard.store import Store

PAGE = 100
"""Entries of a page."""

MOST_REFUSALS = 200
_NOTHING: dict[str, JSON] = {
    "families": [],
    "difficulties": [],
    "passes": [],
    "before": None,
    "alike": [],
    "image": None,
    "knows": False,
    "wants": {},
}
"""What an entry says of which nothing is known: a hosted run has no manifest, a score card no episodes."""

_TOLD = (
    "agent", "model", "run", "suite", "commit", "restarted", "retried", "again", "learned", "tokens_in", "tokens_out",
    "tokens_cached", "cost_microusd",
)  # fmt: skip
_HIDDEN = ("no", "who", "contact", "b_no")


@dataclass(frozen=True, slots=True)
class Shown:
    """A board as it is shown."""

    id: str
    board: Board
    created: str
    open: bool
    successor: str | None
    entries: int
    contestants: int
    standing: Mapping[str, JSON]

    @property
    def name(self) -> str:
        """What people call it."""
        return self.board.title or f"{self.board.env.rpartition('/')[2]} · {self.board.split}"

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        told = {name: getattr(self, name) for name in ("id", "created", "open", "successor", "entries", "contestants")}
        return {**told, "standing": dict(self.standing), **self.board.to_json()}


def listed(store: Store) -> list[Shown]:
    """Return all boards, the newest first, closed ones last."""
    with store.reading() as connection:
        order = (sa.desc(boards.c.open), sa.desc(boards.c.created), boards.c.id)
        return [_shown(row) for row in connection.execute(select(boards).order_by(*order)).mappings()]


def one_board(store: Store, board_id: str) -> Shown:
    """Return a board.

    Raises:
        Refused: There is none.
    """
    with store.reading() as connection:
        row = connection.execute(select(boards).where(boards.c.id == _plain_id(board_id))).mappings().first()
    if row is None:
        raise Refused("no-board", f"there is no board {board_id[:160]!r}", fix="choose one of those there are")
    return _shown(row)


def page(store: Store, board_id: str, number: int = 1, contestant: str = "") -> tuple[list[dict[str, Any]], int]:
    """Return the entries of a page, best first, and how many pages there are.

    Args:
        store: Where the board is.
        board_id: Of the board.
        number: Of the page, from 1.
        contestant: Only of contestants whose names begin like this.
    """
    where = [entries.c.board == board_id]
    if contestant:
        where.append(entries.c.who.startswith(_plain_id(texts.key_of(contestant)[:100]), autoescape=True))
    with store.reading() as connection:
        many = connection.execute(select(func.count()).where(*where)).scalar_one()
        asked = select(entries).where(*where).order_by(entries.c.position, entries.c.no)
        rows = connection.execute(asked.limit(PAGE).offset((number - 1) * PAGE)).mappings().all()
        found = [_entry(row) for row in rows]
        _with_attempts(connection, board_id, rows, found)
    return found, max(-(-many // PAGE), 1)


def one_entry(store: Store, board_id: str, entry_id: str) -> dict[str, Any]:
    """Return an entry with all that is shown of it, and the other attempts of its contestant.

    Raises:
        Refused: There is none.
    """
    mine = (entries.c.board == board_id, entries.c.id == _plain_id(entry_id))
    with store.reading() as connection:
        row = connection.execute(select(entries).where(*mine)).mappings().first()
        if row is None:
            raise Refused("no-board", f"the board has no entry {entry_id[:64]!r}", fix="go back to the board")
        others = select(entries).where(entries.c.board == board_id, entries.c.who == row["who"])
        same = connection.execute(others.where(entries.c.kind == row["kind"]).order_by(entries.c.no)).mappings()
        found = _entry(row)
        found["others"] = [_entry(other) for other in same if other["id"] != entry_id]
        found["attempts"] = len(found["others"]) + 1
        found["refused"] = connection.execute(_refused_count(board_id, row["who"])).scalar_one()
    return found


def refused(store: Store, board_id: str) -> list[dict[str, Any]]:
    """Return the latest refusals of a board."""
    asked = select(refusals).where(refusals.c.board == board_id).order_by(sa.desc(refusals.c.no)).limit(MOST_REFUSALS)
    with store.reading() as connection:
        return [_plain(row) for row in connection.execute(asked).mappings()]


def waiting(store: Store) -> list[dict[str, Any]]:
    """Return the latest of the queue, what is waiting first."""
    order = (sa.case((queue.c.state.in_(("waiting", "verifying")), 0), else_=1), sa.desc(queue.c.no))
    with store.reading() as connection:
        rows = connection.execute(select(queue).order_by(*order).limit(100)).mappings()
        return [{**_plain(row), "answer": _answer(row["answer"])} for row in rows]


def _plain_id(said: str) -> str:
    """Return what may be asked of every database: PostgreSQL knows no text with a zero in it."""
    return said.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _shown(row: RowMapping) -> Shown:
    return Shown(
        row["id"],
        Board.from_json(json.loads(row["form"])),
        row["created"],
        row["open"],
        row["successor"],
        row["entries"],
        row["contestants"],
        json.loads(row["standing"]),
    )


def _entry(row: RowMapping) -> dict[str, Any]:
    plain, detail = _plain(row), json.loads(row["detail"])
    told = {**dict.fromkeys(_TOLD), **detail.get("told", {})}
    return {**_NOTHING, **plain, "notes_text": plain.pop("notes"), **detail, "told": told}


def _plain(row: RowMapping) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in (*_HIDDEN, "detail", "owner")}


def _answer(said: str | None) -> JSON:
    return None if said is None else json.loads(said)


def _with_attempts(connection: Connection, board_id: str, rows: Any, found: list[dict[str, Any]]) -> None:
    """Say of each entry how many attempts its contestant has made in all."""
    names = sorted({row["who"] for row in rows if row["kind"] == "contestant"})
    mine = (entries.c.board == board_id, entries.c.kind == "contestant", entries.c.who.in_(names))
    asked = select(entries.c.who, func.count()).where(*mine).group_by(entries.c.who)
    counts = {row[0]: row[1] for row in connection.execute(asked)}
    for row, shown in zip(rows, found, strict=True):
        shown["attempts"] = counts.get(row["who"], 1)


def _refused_count(board_id: str, who: str) -> Any:
    return select(func.count()).where(refusals.c.board == board_id, refusals.c.who == who, refusals.c.who != "")
