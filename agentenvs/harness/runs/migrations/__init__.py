"""The versions of the index's schema, by alembic."""
