"""Schema versions of the journal, for alembic."""
