"""What alembic runs: the migrations, on the connection it is handed."""

from __future__ import annotations

from alembic import context

from agentenvs.leaderboard.schema import VERSION_TABLE, metadata


def run() -> None:
    """Bring the connection's schema to the version that was asked for."""
    handed = context.config.attributes["connection"]
    context.configure(connection=handed, target_metadata=metadata, render_as_batch=True, version_table=VERSION_TABLE)
    with context.begin_transaction():
        context.run_migrations()


if __name__ == "env_py":  # the name under which alembic loads this file
    run()
