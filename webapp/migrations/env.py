"""How Alembic reaches the database: past a pooler where that address is named, and one release at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import context
from flask import current_app
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError

from tasks.database import UNREACHABLE, engine_options
from tasks.ledger.models import Base
from tasks.settings import Settings
from webapp import models  # noqa: F401  (accounts and tokens belong to the metadata too)

ONE_AT_A_TIME = 7_294_712  # an advisory lock of our own: hosts start several release processes at once


def run() -> None:
    """Bring the database up, in one transaction, or leave it as it was."""
    with connect(current_app.config["WAYBILL"]) as connection:
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


@contextmanager
def connect(settings: Settings) -> Iterator[Connection]:
    """The connection of the release. Ends the command with one line when there is none."""
    engine = create_engine(settings.migration_url, **engine_options(settings, "waybill-release"))
    try:
        connection = engine.connect()
    except DBAPIError as error:
        setting = "DATABASE_URL" if settings.direct_database_url is None else "DIRECT_DATABASE_URL"
        raise SystemExit(UNREACHABLE.format(setting=setting, error=type(error.orig).__name__)) from None
    try:
        yield connection
    finally:
        connection.close()
        engine.dispose()


run()
