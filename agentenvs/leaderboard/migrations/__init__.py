"""The versions of the store's schema, by alembic."""
