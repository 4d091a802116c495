"""What alembic runs."""

from __future__ import annotations

from agentenvs.core.database import run_migrations

if __name__ == "env_py":  # the name under which alembic loads this file
    run_migrations()
