"""Tickets: who may play which sealed scenarios, once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "tickets",
        sa.Column("id", sa.LargeBinary(), nullable=False),
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("board", sa.String(length=80), nullable=False),
        sa.Column("contestant", sa.String(length=80), nullable=False),
        sa.Column("agent", sa.String(length=80), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("env", sa.String(length=200), nullable=False),
        sa.Column("split", sa.String(length=200), nullable=False),
        sa.Column("secret", sa.String(length=64), nullable=False),
        sa.Column("numbers", sa.Text(), nullable=False),
        sa.Column("opened", sa.Integer(), nullable=False),
        sa.Column("issued", sa.Float(), nullable=False),
        sa.Column("deadline", sa.Float(), nullable=False),
        sa.Column("settled", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("contestant", "board", "env", "secret", "attempt", name="tickets_by_contestant"),
    )
