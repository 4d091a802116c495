"""The tables of the journal.

A turn is the action, the digest of its answer and its effects; answers are derived again by playing the turns again.
Secrets are looked up by digest; the names of sessions and agent keys stand in ``sessions.name`` and in the openings of
episodes, since a create or reset that is asked again is answered again. Whoever can read the journal can control the
sessions in it.
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
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

_Number = BigInteger().with_variant(Integer, "sqlite")  # what SQLite numbers by itself is called INTEGER

meta = Table("meta", metadata, Column("name", String(40), primary_key=True), Column("value", Text, nullable=False))
"""``epoch``: when the journal was opened, on the machine's monotonic clock (SQLite only)."""

counters = Table(
    "counters",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("open", Integer, nullable=False),
)
"""Open sessions of each tenant: capacity and quotas are counted here, whichever worker is asked."""

attempts = Table(
    "attempts",
    metadata,
    Column("tenant", String(64), nullable=False),
    Column("env", String(200), nullable=False),
    Column("split", String(200), nullable=False),
    Column("secret", String(64), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("key", String(200), nullable=False),
    PrimaryKeyConstraint("tenant", "env", "split", "secret", "number"),
)
"""Sealed scenarios a tenant has been given, each once, by the key of the create; ``secret`` names the operator's."""

tickets = Table(
    "tickets",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("name", String(40), nullable=False, unique=True),
    Column("board", String(80), nullable=False),
    Column("contestant", String(80), nullable=False),
    Column("agent", String(80), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("env", String(200), nullable=False),
    Column("split", String(200), nullable=False),
    Column("secret", String(64), nullable=False),
    Column("numbers", Text, nullable=False),
    Column("opened", Integer, nullable=False),
    Column("issued", Float, nullable=False),
    Column("deadline", Float, nullable=False),
    Column("settled", Float),
    UniqueConstraint("contestant", "board", "env", "secret", "attempt", name="tickets_by_contestant"),
)
"""Who may play which sealed scenarios, once, in this order: ``numbers`` is a JSON list, ``opened`` of them were given
out. ``id`` is the digest of the ticket. Dates are seconds of the civil clock: a ticket outlives servers."""

creates = Table(
    "creates",
    metadata,
    Column("tenant", String(64), nullable=False),
    Column("key", String(200), nullable=False),
    Column("form", LargeBinary, nullable=False),
    Column("single", Boolean, nullable=False),
    PrimaryKeyConstraint("tenant", "key"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("name", String(80), nullable=False),
    Column("tenant", String(64), nullable=False),
    Column("create_key", String(200), nullable=False),
    Column("place", Integer, nullable=False),
    Column("env", String(200), nullable=False),
    Column("release", String(40), nullable=False),
    Column("spec", String(64), nullable=False),
    Column("options", Text, nullable=False),
    Column("traced", Boolean, nullable=False),
    Column("strict", Boolean, nullable=False),
    Column("idle", Integer, nullable=False),
    Column("absolute", Integer, nullable=False),
    Column("born", Float, nullable=False),
    Column("touched", Float, nullable=False),
    Column("state", String(10), nullable=False),
    Column("over", Float),
    Column("episode", String(40), nullable=False),
    Column("begun", Integer, nullable=False),
    Column("reset_key", String(200)),
    Column("reset_form", LargeBinary),
    Column("farewell", LargeBinary),
    Column("owner", String(8), nullable=False),
    Column("lease", Float, nullable=False),
    Index("sessions_by_create", "tenant", "create_key"),
    Index("sessions_by_state", "state", "touched"),
)
"""``state`` is open, closed or expired; ``owner`` and ``lease`` matter where a world cannot be rebuilt elsewhere."""

episodes = Table(
    "episodes",
    metadata,
    Column("no", _Number, primary_key=True),
    Column("id", String(40), nullable=False, unique=True),
    Column("session", LargeBinary, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("n", Integer, nullable=False),
    Column("agent", LargeBinary, nullable=False, unique=True),
    Column("split", String(200), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("player", Text, nullable=False),
    Column("opening", LargeBinary, nullable=False),
    Column("effects", LargeBinary),
    Column("ending", String(10)),
    Column("record", LargeBinary),
    Index("episodes_by_session", "session", "n"),
)
"""``opening`` is the answer to the reset, ``record`` the packed record once the world went on to something else."""

playing = Table(
    "playing",
    metadata,
    Column("episode", String(40), primary_key=True),
    Column("session", LargeBinary, nullable=False),
    Column("no", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""The current episodes of open sessions: small, since every turn looks here whether it may still be played."""

turns = Table(
    "turns",
    metadata,
    Column("episode", BigInteger, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("action", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("effects", LargeBinary),
    Column("failed", String(200)),
    Column("worker", BigInteger, nullable=False),
    UniqueConstraint("episode", "turn", name="turns_by_episode"),
)
"""In the order in which they came, ``episode`` being its number, so that a commit touches few pages. ``failed`` names
the exception of an environment that failed in this turn."""

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("episode", String(40), primary_key=True),
    Column("turn", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
"""A saved world with its record so far, where the turns alone would take too long to play again."""
