"""The first schema of the journal."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    _accounts()
    _sessions()
    _turns()


def _accounts() -> None:
    op.create_table(
        "attempts",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("env", sa.String(length=200), nullable=False),
        sa.Column("split", sa.String(length=200), nullable=False),
        sa.Column("secret", sa.String(length=64), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "env", "split", "secret", "number"),
    )
    op.create_table(
        "counters",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("open", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant"),
    )
    op.create_table(
        "creates",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("form", sa.LargeBinary(), nullable=False),
        sa.Column("single", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key"),
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.LargeBinary(), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("create_key", sa.String(length=200), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("env", sa.String(length=200), nullable=False),
        sa.Column("release", sa.String(length=40), nullable=False),
        sa.Column("spec", sa.String(length=64), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("traced", sa.Boolean(), nullable=False),
        sa.Column("strict", sa.Boolean(), nullable=False),
        sa.Column("idle", sa.Integer(), nullable=False),
        sa.Column("absolute", sa.Integer(), nullable=False),
        sa.Column("born", sa.Float(), nullable=False),
        sa.Column("touched", sa.Float(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("over", sa.Float(), nullable=True),
        sa.Column("episode", sa.String(length=40), nullable=False),
        sa.Column("begun", sa.Integer(), nullable=False),
        sa.Column("reset_key", sa.String(length=200), nullable=True),
        sa.Column("reset_form", sa.LargeBinary(), nullable=True),
        sa.Column("farewell", sa.LargeBinary(), nullable=True),
        sa.Column("owner", sa.String(length=8), nullable=False),
        sa.Column("lease", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("sessions_by_create", "sessions", ["tenant", "create_key"], unique=False)
    op.create_index("sessions_by_state", "sessions", ["state", "touched"], unique=False)
    op.create_table(
        "episodes",
        sa.Column("no", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("session", sa.LargeBinary(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("agent", sa.LargeBinary(), nullable=False),
        sa.Column("split", sa.String(length=200), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("player", sa.Text(), nullable=False),
        sa.Column("opening", sa.LargeBinary(), nullable=False),
        sa.Column("effects", sa.LargeBinary(), nullable=True),
        sa.Column("ending", sa.String(length=10), nullable=True),
        sa.Column("record", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("no"),
        sa.UniqueConstraint("agent"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("episodes_by_session", "episodes", ["session", "n"], unique=False)


def _turns() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("episode", sa.String(length=40), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("episode"),
    )
    op.create_table(
        "playing",
        sa.Column("episode", sa.String(length=40), nullable=False),
        sa.Column("session", sa.LargeBinary(), nullable=False),
        sa.Column("no", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("episode"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "turns",
        sa.Column("episode", sa.BigInteger(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("action", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("effects", sa.LargeBinary(), nullable=True),
        sa.Column("failed", sa.String(length=200), nullable=True),
        sa.Column("worker", sa.BigInteger(), nullable=False),
        sa.UniqueConstraint("episode", "turn", name="turns_by_episode"),
    )
