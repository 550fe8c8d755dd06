"""Tests that the migrations create the database that the models describe."""

from __future__ import annotations

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from tasks.database import Database
from tasks.ledger.reports import job_views
from tasks.ledger.schema import MIGRATIONS
from tests.support import factories
from webapp.models import Base


def test_models_and_migrations_agree(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []


def test_checks_and_indexes_agree_to_the_word(database: Database, spare_database: Database) -> None:
    with database.transaction() as migrated, spare_database.transaction() as described:
        assert factories.constraints(migrated) == factories.constraints(described)


def test_the_ledger_knows_the_migrations_in_their_order() -> None:
    scripts = ScriptDirectory(factories.ROOT / "webapp" / "migrations")
    assert tuple(script.revision for script in scripts.walk_revisions())[::-1] == MIGRATIONS


def test_there_is_one_newest_migration_and_the_database_is_at_it(database: Database) -> None:
    scripts = ScriptDirectory(factories.ROOT / "webapp" / "migrations")
    assert len(scripts.get_heads()) == 1
    with database.transaction() as session:
        assert job_views.schema_version(session) == scripts.get_current_head()
