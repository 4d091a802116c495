"""The first schema of a store of boards."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    _boards()
    _entries()
    _plays()
    _refusals()
    _queue()
    _receipts()


def _boards() -> None:
    op.create_table(
        "boards",
        sa.Column("id", sa.String(length=160), nullable=False),
        sa.Column("lineage", sa.String(length=64), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("created", sa.String(length=20), nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("successor", sa.String(length=160), nullable=True),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("contestants", sa.Integer(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _entries() -> None:
    op.create_table(
        "entries",
        sa.Column("no", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("board", sa.String(length=160), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=12), nullable=False),
        sa.Column("tier", sa.String(length=16), nullable=False),
        sa.Column("contestant", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("contact", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("player", sa.Text(), nullable=True),
        sa.Column("created", sa.String(length=20), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("bundle", sa.String(length=64), nullable=True),
        sa.Column("episodes", sa.Integer(), nullable=False),
        sa.Column("successes", sa.Integer(), nullable=False),
        sa.Column("rate", sa.Float(), nullable=False),
        sa.Column("low", sa.Float(), nullable=False),
        sa.Column("high", sa.Float(), nullable=False),
        sa.Column("reward", sa.Float(), nullable=False),
        sa.Column("turns", sa.Float(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("best", sa.Integer(), nullable=True),
        sa.Column("worst", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["board"],
            ["boards.id"],
        ),
        sa.PrimaryKeyConstraint("no"),
        sa.UniqueConstraint("board", "id", name="entries_of_board"),
    )
    op.create_index("entries_by_contestant", "entries", ["board", "who"], unique=False)
    op.create_index("entries_by_position", "entries", ["board", "position"], unique=False)


def _plays() -> None:
    op.create_table(
        "plays",
        sa.Column("entry", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("wins", sa.LargeBinary(), nullable=False),
        sa.Column("actions", sa.LargeBinary(), nullable=False),
        sa.Column("moves", sa.LargeBinary(), nullable=False),
        sa.Column("records", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["entry"], ["entries.no"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("entry"),
    )


def _refusals() -> None:
    op.create_table(
        "refusals",
        sa.Column("no", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("board", sa.String(length=160), nullable=False),
        sa.Column("bundle", sa.String(length=64), nullable=False),
        sa.Column("contestant", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("created", sa.String(length=20), nullable=False),
        sa.Column("code", sa.String(length=8), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("fix", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["board"],
            ["boards.id"],
        ),
        sa.PrimaryKeyConstraint("no"),
    )
    op.create_index("refusals_of_board", "refusals", ["board", "no"], unique=False)


def _queue() -> None:
    op.create_table(
        "queue",
        sa.Column("no", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("board", sa.String(length=160), nullable=False),
        sa.Column("bundle", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("created", sa.String(length=20), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["board"],
            ["boards.id"],
        ),
        sa.PrimaryKeyConstraint("no"),
        sa.UniqueConstraint("board", "bundle", name="queue_once"),
    )


def _receipts() -> None:
    op.create_table(
        "receipts",
        sa.Column("mark", sa.String(length=200), nullable=False),
        sa.Column("board", sa.String(length=160), nullable=False),
        sa.Column("entry", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["board"],
            ["boards.id"],
        ),
        sa.PrimaryKeyConstraint("mark"),
    )
