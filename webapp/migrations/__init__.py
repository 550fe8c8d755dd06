"""The Alembic migrations."""
