"""What alembic runs: the migrations, on the connection it is handed."""

from __future__ import annotations

from alembic import context

from agentenvs_servers.journal.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
