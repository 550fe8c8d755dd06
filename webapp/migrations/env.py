"""How Alembic reaches the database: the app's own engine, one migration at a time."""

from __future__ import annotations

from alembic import context
from sqlalchemy import text

from tasks.ledger.models import Base
from webapp import models  # noqa: F401  (accounts and tokens belong to the metadata too)
from webapp.extensions import db

ONE_AT_A_TIME = 7_294_712  # an advisory lock of our own: hosts start several release processes at once


def run() -> None:
    """Bring the database up, in one transaction, or leave it as it was."""
    with db.engine.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=Base.metadata,
            compare_server_default=True,
            render_as_batch=False,
        )
        with context.begin_transaction():
            # Of the transaction, not of the session: a pooler in transaction mode keeps no session.
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ONE_AT_A_TIME})
            context.run_migrations()


run()
