"""Connects Alembic to the database: past a pooler if a direct address is set, and one release at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import context
from flask import current_app
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError

from tasks.database import UNREACHABLE, engine_options
from tasks.ledger.models import Base
from tasks.settings import Settings
from webapp import models  # noqa: F401  (accounts and tokens belong to the metadata too)
from webapp.migrations.locks import GivenUp, migrate


def run() -> None:
    """Migrate the database in one transaction, or leave it as it was."""
    with connect(current_app.config["WAYBILL"]) as connection:

        def once() -> None:
            context.configure(
                connection=connection,
                target_metadata=Base.metadata,
                compare_server_default=True,
                render_as_batch=False,
            )
            with context.begin_transaction():
                context.run_migrations()

        try:
            migrate(connection, once)
        except GivenUp as why:
            raise SystemExit(str(why)) from None


@contextmanager
def connect(settings: Settings) -> Iterator[Connection]:
    """Open the connection of the release. Ends the command with one line if the database is unreachable."""
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
