"""Tests that a migration only adds, so that the previous code keeps working during the release and after a rollback.

A migration that removes something is a contract: it names `contracts = "<revision>"`, the earlier migration that added
the replacement. Evaluated by the SQL that it runs, so that nothing is missed in op.execute().
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from alembic import op
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory

from tests.support.factories import ROOT

REVISIONS = list(ScriptDirectory(ROOT / "webapp" / "migrations").walk_revisions())[::-1]
TAKES_AWAY = {
    "drops a table": r"DROP TABLE (\S+)",
    "drops a column": r"DROP COLUMN (\S+)",
    "renames": r"RENAME (?:.* )?TO (\S+)",
    "refuses empty values that were allowed": r"ALTER COLUMN (\S+) SET NOT NULL",
    "takes a default away": r"ALTER COLUMN (\S+) DROP DEFAULT",
    "changes a type": r"ALTER COLUMN (\S+) (?:SET DATA )?TYPE",
    "demands a value that older code does not write": r"ADD COLUMN (\S+) (?!.*(?:DEFAULT|GENERATED)).*NOT NULL",
    "deletes rows": r"^\s*(?:DELETE FROM|TRUNCATE) (\S+)",
}
# Removed, unless the same migration creates one of the same name: a widened CHECK, an index with one more column.
REPLACED = {
    "drops a constraint": (r"DROP CONSTRAINT (?:IF EXISTS )?(\S+)", r"ADD CONSTRAINT {} "),
    "drops an index": (r"DROP INDEX (?:IF EXISTS )?(\S+)", r"CREATE (?:UNIQUE )?INDEX {} "),
}
# On an existing table, these refuse rows that older code may write.
NARROWS = {
    "adds a rule": r"ALTER TABLE (\S+) ADD CONSTRAINT (\S+)",
    "adds a unique index": r"CREATE UNIQUE INDEX (\S+) ON (\S+)",
}


def sql_of(upgrade: Callable[[], None]) -> list[str]:
    """Return the statements that a migration runs."""
    written = io.StringIO()
    context = MigrationContext.configure(dialect_name="postgresql", opts={"as_sql": True, "output_buffer": written})
    with Operations.context(context):
        upgrade()
    return [" ".join(statement.split()) for statement in written.getvalue().split(";")]


def taken_away(statements: list[str]) -> list[str]:
    """Return what the statements remove from code that does not know them."""
    made = {found[1] for statement in statements if (found := re.search(r"CREATE TABLE (\S+)", statement))}
    dropped = {
        found[1] for statement in statements if (found := re.search(r"DROP (?:CONSTRAINT|INDEX) (\S+)", statement))
    }
    faults = []
    for statement in statements:
        for fault, pattern in TAKES_AWAY.items():
            if found := re.search(pattern, statement, re.IGNORECASE):
                faults.append(f"{fault}: {found[1]}")
        for fault, (pattern, again) in REPLACED.items():
            found = re.search(pattern, statement)
            if found and not any(re.search(again.format(re.escape(found[1])), other) for other in statements):
                faults.append(f"{fault}: {found[1]}")
        for fault, pattern in NARROWS.items():
            found = re.search(pattern, statement)
            if found and not made & set(found.groups()) and not dropped & set(found.groups()):
                faults.append(f"{fault}: {' '.join(found.groups())}")
    return faults


@pytest.mark.parametrize("position", range(len(REVISIONS)), ids=[revision.revision for revision in REVISIONS])
def test_a_migration_adds_and_what_takes_away_names_what_it_contracts(position: int) -> None:
    module = REVISIONS[position].module
    faults = taken_away(sql_of(module.upgrade))
    earlier = {revision.revision for revision in REVISIONS[:position]}
    assert faults == [] or getattr(module, "contracts", None) in earlier, faults


def new_column(**more: object) -> None:
    op.add_column("jobs", sa.Column("priority", sa.Integer(), **more))  # type: ignore[arg-type]


def wider_check() -> None:
    op.drop_constraint("state_is_known", "jobs")
    op.create_check_constraint("state_is_known", "jobs", "state IN ('queued', 'paused')")


@pytest.mark.parametrize(
    ("upgrade", "fault"),
    [
        (lambda: new_column(nullable=True), None),
        (lambda: new_column(nullable=False, server_default="0"), None),
        (lambda: op.create_table("notes", sa.Column("id", sa.Integer(), primary_key=True)), None),
        (lambda: op.create_index("jobs_by_title", "jobs", ["title"]), None),
        (wider_check, None),
        (lambda: op.drop_table("jobs"), "drops a table"),
        (lambda: op.drop_column("jobs", "title"), "drops a column"),
        (lambda: op.alter_column("jobs", "title", new_column_name="name"), "renames"),
        (lambda: op.rename_table("jobs", "works"), "renames"),
        (lambda: op.alter_column("jobs", "step", nullable=False), "refuses empty values"),
        (lambda: op.alter_column("jobs", "title", server_default=None), "takes a default away"),
        (lambda: op.alter_column("jobs", "title", type_=sa.Integer()), "changes a type"),
        (lambda: new_column(nullable=False), "demands a value"),
        (lambda: op.drop_constraint("state_is_known", "jobs"), "drops a constraint"),
        (lambda: op.drop_index("one_job_per_operation", "jobs"), "drops an index"),
        (lambda: op.create_check_constraint("titled", "jobs", "title <> ''"), "adds a rule"),
        (lambda: op.create_index("one_title", "jobs", ["title"], unique=True), "adds a unique index"),
        (lambda: op.execute("ALTER TABLE jobs DROP COLUMN title"), "drops a column"),
        (lambda: op.execute("DELETE FROM results"), "deletes rows"),
    ],
)
def test_the_check_tells_one_from_the_other(upgrade: Callable[[], None], fault: str | None) -> None:
    faults = taken_away(sql_of(upgrade))
    assert [found.startswith(fault) for found in faults] == [True] if fault else faults == []
