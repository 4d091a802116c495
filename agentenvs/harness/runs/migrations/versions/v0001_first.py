"""The first schema of the index of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    _runs()
    _damage()
    _episodes()
    _tags()


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("no", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("created", sa.String(length=20), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("ended_by", sa.String(length=12), nullable=True),
        sa.Column("env", sa.String(length=200), nullable=False),
        sa.Column("release", sa.String(length=40), nullable=False),
        sa.Column("spec", sa.String(length=64), nullable=False),
        sa.Column("split", sa.String(length=200), nullable=False),
        sa.Column("panel", sa.String(length=64), nullable=True),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("planned", sa.Integer(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("privileged", sa.Boolean(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("price_table", sa.Text(), nullable=True),
        sa.Column("restarted", sa.Integer(), nullable=True),
        sa.Column("retried", sa.Integer(), nullable=True),
        sa.Column("manifest", sa.String(length=64), nullable=True),
        sa.Column("content", sa.String(length=64), nullable=False),
        sa.Column("table_bytes", sa.BigInteger(), nullable=False),
        sa.Column("table_digest", sa.String(length=64), nullable=False),
        sa.Column("episodes", sa.Integer(), nullable=False),
        sa.Column("successes", sa.Integer(), nullable=False),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.Column("infrastructure", sa.Integer(), nullable=False),
        sa.Column("reward", sa.Float(), nullable=False),
        sa.Column("turns", sa.BigInteger(), nullable=False),
        sa.Column("tokens_in", sa.BigInteger(), nullable=True),
        sa.Column("tokens_out", sa.BigInteger(), nullable=True),
        sa.Column("cost_microusd", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("no"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("runs_by_env", "runs", ["env", "split"], unique=False)
    op.create_index("runs_by_time", "runs", ["created"], unique=False)


def _damage() -> None:
    op.create_table(
        "damage",
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("file", sa.String(length=40), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.no"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "file", "line"),
    )


def _episodes() -> None:
    op.create_table(
        "episodes",
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("split", sa.String(length=200), nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.Column("scenario", sa.Text(), nullable=False),
        sa.Column("scenario_digest", sa.String(length=64), nullable=True),
        sa.Column("record", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("difficulty", sa.Text(), nullable=True),
        sa.Column("par", sa.BigInteger(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("ending", sa.String(length=12), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=False),
        sa.Column("reward", sa.Float(), nullable=False),
        sa.Column("episode_return", sa.Float(), nullable=False),
        sa.Column("turns", sa.BigInteger(), nullable=False),
        sa.Column("invalid", sa.BigInteger(), nullable=False),
        sa.Column("undone", sa.BigInteger(), nullable=False),
        sa.Column("stopped", sa.Text(), nullable=True),
        sa.Column("fault", sa.String(length=12), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("tokens_in", sa.BigInteger(), nullable=True),
        sa.Column("tokens_out", sa.BigInteger(), nullable=True),
        sa.Column("tokens_cached", sa.BigInteger(), nullable=True),
        sa.Column("cost_microusd", sa.BigInteger(), nullable=True),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.no"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "number"),
    )


def _tags() -> None:
    op.create_table(
        "tags",
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("tag", sa.String(length=80), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.no"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "tag"),
    )
