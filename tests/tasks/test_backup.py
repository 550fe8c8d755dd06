"""A site is exported completely, and a site that imports it continues where the other stopped."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from tasks import backup
from tasks.cli import jobs as cli_jobs
from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.models import Base
from tasks.ledger.reports import job_views
from tasks.ledger.schema import MIGRATIONS
from tasks.ledger.states import State
from tasks.maintenance.reconciler import Reconciler
from tasks.queue import DeliveryQueue
from tasks.settings import Settings
from tests.support import factories
from tests.support.processes.fork_server import completed

BYTES = bytes(range(256)) * 8


@pytest.fixture
def other(addresses: dict[str, str], spare_database: Database) -> Iterator[Database]:
    """Yield an empty database with today's schema."""
    with spare_database.transaction() as session:
        session.execute(text("CREATE TABLE alembic_version (version_num text NOT NULL)"))
        session.execute(text("INSERT INTO alembic_version VALUES (:v)"), {"v": MIGRATIONS[-1]})
    yield spare_database


def rows(database: Database) -> dict[str, list[str]]:
    """Return every row of every table, as the database prints it."""
    with database.transaction() as session:
        names = session.execute(
            text("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1")
        ).scalars()
        return {
            name: list(session.execute(text(f"SELECT to_jsonb(t)::text FROM {name} t ORDER BY 1")).scalars())
            for name in list(names)
        }


def a_site(database: Database, account_id: uuid.UUID) -> dict[str, uuid.UUID]:
    """Create jobs in several states, and a row in every table."""
    with database.transaction() as session:
        queued = factories.submit(session, account_id, b"Waiting. It is a text.", idempotency_key="k").job_id
        held = factories.submit(session, account_id, b"Being worked on. It is a text.").job_id
        factories.claim(session, held)
        done = factories.submit(session, account_id, BYTES, title='Wörter – 文書 \\ " \n').job_id
        claim = factories.claim(session, done)
        transitions.succeed(
            session, claim, text="A line\nand another \u2028 😀", facts={"deep": {"list": [1, 2.5, None]}}
        )
        failed = factories.submit(session, account_id, b"Failed.").job_id
        transitions.fail(session, factories.claim(session, failed), category=Category.QUOTA)
        for statement in (
            "INSERT INTO lanes (name, state, probing, strikes) VALUES ('l', 'open', false, 0)",
            "INSERT INTO workers (name, queue, slots) VALUES ('w', 'q', 4)",
            "INSERT INTO left_responses (response_id, lane) VALUES ('r', 'l')",
        ):
            session.execute(text(statement))
        session.execute(
            text("INSERT INTO api_tokens (id, account_id, name, token_hash) VALUES (gen_random_uuid(), :a, 'n', 'h')"),
            {"a": account_id},
        )
        session.execute(
            text(
                "INSERT INTO provider_calls (id, job_id, generation, step, lane, provider, model, outcome) "
                "VALUES (gen_random_uuid(), :j, 1, 's', 'l', 'p', 'm', 'open')"
            ),
            {"j": held},
        )
        session.execute(
            text("INSERT INTO checkpoints (job_id, step, generation, text, facts) VALUES (:j, 's', 1, 't', '{}')"),
            {"j": held},
        )
    return {"queued": queued, "held": held, "done": done}


@pytest.mark.thorough
def test_every_row_comes_back_equal_and_unfinished_jobs_go_on(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID, other: Database
) -> None:
    jobs = a_site(database, account_id)
    before = rows(database)
    empty = {name for name, found in before.items() if not found}
    assert not empty & {table.name for table in Base.metadata.sorted_tables if table.name in KNOWN}, empty
    written = io.StringIO()
    cli_jobs.exported(factories.settings(addresses), written)
    there = {**addresses, "DATABASE_URL": other.engine.url.set(drivername="postgresql").render_as_string(False)}
    assert "jobs: 4" in cli_jobs.imported(factories.settings(there), written.getvalue().splitlines())
    assert rows(other) == before
    assert rows(database) == before
    settings = factories.settings(there)
    with other.transaction() as session:
        factories.let_the_lease_run_out(session, jobs["held"])
    Reconciler(other.transaction, settings, lambda: None).step()
    worker = completed(["-m", "tasks", "worker", "--burst"], factories.environment(there), check=True)
    with other.transaction() as session:
        for job_id in jobs.values():
            assert factories.state_of(session, job_id) is State.SUCCEEDED, worker.stderr
        assert job_views.original_of(session, jobs["done"], account_id).content == BYTES
        assert job_views.orphans(session, grace_seconds=0) == 0


KNOWN = {
    "accounts", "api_tokens", "documents", "jobs", "submissions", "deliveries", "attempts", "checkpoints",
    "provider_calls", "left_responses", "results", "events", "lanes", "workers",
}  # fmt: skip


def refused(database: Database, lines: list[str]) -> str:
    before = rows(database)
    with pytest.raises(backup.NotImported) as why:
        backup.restore(database, lines)
    assert rows(database) == before
    return str(why.value)


@pytest.mark.thorough
def test_what_is_not_whole_or_does_not_fit_changes_nothing(
    database: Database, account_id: uuid.UUID, other: Database
) -> None:
    a_site(database, account_id)
    lines = list(backup.exported(database))
    assert refused(database, lines).startswith("The database is not empty: there are rows in accounts")
    assert "not complete" in refused(other, lines[:-1])
    assert "not complete" in refused(other, lines[:-2] + lines[-1:])
    assert refused(other, []) == "Line 1 is not one of an export."
    assert "not an export" in refused(other, ["{}"])
    newer = json.dumps({**json.loads(lines[0]), "schema": "of a later release"})
    assert "Upgrade it first" in refused(other, [newer, *lines[1:]])
    assert "Line 2" in refused(other, [lines[0], '{"table": "nothing", "row": {}}', *lines[1:]])
    assert "Line 2" in refused(other, [lines[0], '{"table": "accounts", "row": {"id": "no id"}}', *lines[1:]])
    assert "accounts were refused" in refused(other, [lines[0], lines[1], *lines[1:]])
    assert "Line 2" in refused(other, [lines[0], '{"table": "accounts", "row": {"unknown": 1}}', *lines])
    with other.transaction() as session:
        session.execute(text("UPDATE alembic_version SET version_num = 'of a later release'"))
    assert "flask --app wsgi db upgrade" in refused(other, lines)


def test_a_large_table_is_not_held_in_memory(database: Database, account_id: uuid.UUID) -> None:
    """Check that lines are written while rows are still being read: the first line needs only the first batch."""
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        session.execute(
            text(
                "INSERT INTO events (job_id, event, state, generation, facts) "
                "SELECT :j, 'claim', 'running', 1, '{}' FROM generate_series(1, 5000)"
            ),
            {"j": job_id},
        )
    lines = backup.exported(database)
    out = io.StringIO()
    for line in lines:
        out.write(line)
        if '"table":"events"' in line:
            break
    lines.close()
    assert out.tell() < 10_000
    assert len(list(backup.exported(database))) > 5_000


def test_documents_are_not_written_onto_a_terminal(settings: Settings, database: Database) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    with pytest.raises(cli_jobs.NotDone, match=r"waybill\.jsonl"):
        cli_jobs.exported(settings, terminal)
    assert terminal.getvalue() == ""
