"""The tables of the index.

Counts of a run are those of its rows; ``content`` is what its folder held when it was read. Money is in millionths of a
dollar. Rewards are as the run's table spells them.
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
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

VERSION_TABLE = "runs_version"
"""Where alembic notes the version: a database may hold more than this index."""

metadata = MetaData()

_Number = BigInteger().with_variant(Integer, "sqlite")  # what SQLite numbers by itself is called INTEGER


def _of_run() -> Column[int]:
    return Column("run", _Number, ForeignKey("runs.no", ondelete="CASCADE"), nullable=False)


runs = Table(
    "runs",
    metadata,
    Column("no", _Number, primary_key=True),
    Column("id", String(36), nullable=False, unique=True),
    Column("folder", Text, nullable=False),
    Column("created", String(20), nullable=False),
    Column("state", String(8), nullable=False),
    Column("ended_by", String(12)),
    Column("env", String(200), nullable=False),
    Column("release", String(40), nullable=False),
    Column("spec", String(64), nullable=False),
    Column("split", String(200), nullable=False),
    Column("panel", String(64)),
    Column("options", Text, nullable=False),
    Column("planned", Integer, nullable=False),
    Column("policy", Text, nullable=False),
    Column("privileged", Boolean, nullable=False),
    Column("model", Text),
    Column("price_table", Text),
    Column("restarted", Integer),
    Column("retried", Integer),
    Column("manifest", String(64)),
    Column("content", String(64), nullable=False),
    Column("table_bytes", BigInteger, nullable=False),
    Column("table_digest", String(64), nullable=False),
    Column("episodes", Integer, nullable=False),
    Column("successes", Integer, nullable=False),
    Column("errors", Integer, nullable=False),
    Column("infrastructure", Integer, nullable=False),
    Column("reward", Float, nullable=False),
    Column("turns", BigInteger, nullable=False),
    Column("tokens_in", BigInteger),
    Column("tokens_out", BigInteger),
    Column("cost_microusd", BigInteger),
    Index("runs_by_env", "env", "split"),
    Index("runs_by_time", "created"),
)
"""``state`` is complete, ended (before all was played) or open (no manifest yet). ``manifest`` is the digest of the
manifest, ``content`` of all that was read; ``table_bytes`` and ``table_digest`` tell whether the table of episodes has
only grown. ``reward`` is the mean; a sum of tokens or money is null where an episode does not know its own."""

episodes = Table(
    "episodes",
    metadata,
    _of_run(),
    Column("number", Integer, nullable=False),
    Column("split", String(200), nullable=False),
    Column("index", BigInteger, nullable=False),
    Column("scenario", Text, nullable=False),
    Column("scenario_digest", String(64)),
    Column("record", String(64), nullable=False),
    Column("kind", Text),
    Column("difficulty", Text),
    Column("par", BigInteger),
    Column("attempt", Integer, nullable=False),
    Column("ending", String(12), nullable=False),
    Column("success", Boolean, nullable=False),
    Column("reward", Float, nullable=False),
    Column("episode_return", Float, nullable=False),
    Column("turns", BigInteger, nullable=False),
    Column("invalid", BigInteger, nullable=False),
    Column("undone", BigInteger, nullable=False),
    Column("stopped", Text),
    Column("fault", String(12)),
    Column("error", Text),
    Column("tokens_in", BigInteger),
    Column("tokens_out", BigInteger),
    Column("tokens_cached", BigInteger),
    Column("cost_microusd", BigInteger),
    Column("metrics", Text, nullable=False),
    PrimaryKeyConstraint("run", "number"),
)
"""A row an episode that counts; ``metrics`` is JSON."""

tags = Table("tags", metadata, _of_run(), Column("tag", String(80), nullable=False), PrimaryKeyConstraint("run", "tag"))

damage = Table(
    "damage",
    metadata,
    _of_run(),
    Column("file", String(40), nullable=False),
    Column("line", Integer, nullable=False),
    Column("why", Text, nullable=False),
    PrimaryKeyConstraint("run", "file", "line"),
)
"""What could not be read of a run; line 0 is the whole file."""
