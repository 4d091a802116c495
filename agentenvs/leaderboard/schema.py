"""The tables of a store of boards.

A row of ``entries`` is a line of a board, complete as it is shown: pages are read, never computed. What ranking and the
search for copies need of each entry (won attempts by scenario, digests of play) stands apart, since pages never ask.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

VERSION_TABLE = "leaderboard_version"

metadata = MetaData()

_Number = BigInteger().with_variant(Integer, "sqlite")


def _of_board() -> Column[str]:
    return Column("board", String(160), ForeignKey("boards.id"), nullable=False)


boards = Table(
    "boards",
    metadata,
    Column("id", String(160), primary_key=True),
    Column("lineage", String(64), nullable=False),
    Column("form", Text, nullable=False),
    Column("created", String(20), nullable=False),
    Column("open", Boolean, nullable=False),
    Column("successor", String(160)),
    Column("entries", Integer, nullable=False),
    Column("contestants", Integer, nullable=False),
    Column("standing", Text, nullable=False),
)
"""``form`` is the board as JSON; ``standing`` what its ranking says of the whole, as JSON."""

entries = Table(
    "entries",
    metadata,
    Column("no", _Number, primary_key=True),
    _of_board(),
    Column("id", String(64), nullable=False),
    Column("kind", String(12), nullable=False),
    Column("tier", String(16), nullable=False),
    Column("contestant", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("contact", Text, nullable=False),
    Column("notes", Text, nullable=False),
    Column("player", Text),
    Column("created", String(20), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("bundle", String(64)),
    Column("episodes", Integer, nullable=False),
    Column("successes", Integer, nullable=False),
    Column("rate", Float, nullable=False),
    Column("low", Float, nullable=False),
    Column("high", Float, nullable=False),
    Column("reward", Float, nullable=False),
    Column("turns", Float, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("detail", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("best", Integer),
    Column("worst", Integer),
    UniqueConstraint("board", "id", name="entries_of_board"),
    Index("entries_by_position", "board", "position"),
    Index("entries_by_contestant", "board", "who"),
)
"""``kind`` is contestant, anchor (measured here) or card (of a score card). ``who`` is what the attempts of a
contestant are counted by. ``detail`` is the rest of what a page shows, as JSON."""

plays = Table(
    "plays",
    metadata,
    Column("entry", _Number, ForeignKey("entries.no", ondelete="CASCADE"), primary_key=True),
    Column("wins", LargeBinary, nullable=False),
    Column("actions", LargeBinary, nullable=False),
    Column("moves", LargeBinary, nullable=False),
    Column("records", LargeBinary, nullable=False),
)
"""``wins``: a byte a scenario. ``actions``, ``moves``, ``records``: eight bytes of a digest an episode, in order of
scenario."""

refusals = Table(
    "refusals",
    metadata,
    Column("no", _Number, primary_key=True),
    _of_board(),
    Column("bundle", String(64), nullable=False),
    Column("contestant", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("created", String(20), nullable=False),
    Column("code", String(8), nullable=False),
    Column("what", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("fix", Text, nullable=False),
    Index("refusals_of_board", "board", "no"),
)

queue = Table(
    "queue",
    metadata,
    Column("no", _Number, primary_key=True),
    _of_board(),
    Column("bundle", String(64), nullable=False),
    Column("owner", Text, nullable=False),
    Column("state", String(12), nullable=False),
    Column("created", String(20), nullable=False),
    Column("done", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("answer", Text),
    UniqueConstraint("board", "bundle", name="queue_once"),
)
"""``state`` is waiting, verifying, admitted or refused; ``answer`` is the entry's id or the refusal as JSON."""

receipts = Table(
    "receipts",
    metadata,
    Column("mark", String(200), primary_key=True),
    _of_board(),
    Column("entry", String(64), nullable=False),
)
"""What makes a receipt one of a kind (its ticket, its nonce): each is good for one row."""
