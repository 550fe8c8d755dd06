"""Tests that today's code processes rows and messages of every earlier version.

The version before must process today's, too.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import flask_migrate
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import text

from tasks import backup
from tasks.database import Database
from tasks.ledger import schema
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.maintenance.reconciler import Reconciler
from tasks.queue import DeliveryQueue
from tasks.queue.dispatcher import Dispatcher
from tasks.settings import Settings
from tests.support import factories
from tests.support.processes.fork_server import completed
from webapp import create_app
from webapp.extensions import db

HERE = Path(__file__).parent
VERSIONS = sorted(path.stem for path in (HERE / "rows").glob("*.jsonl"))
# Leases and waits are over by then, but overdue jobs have not reached their deadline.
AGE_SECONDS = 90
ENDS = {
    "queued": State.SUCCEEDED,
    "running": State.SUCCEEDED,
    "retry_wait": State.SUCCEEDED,
    "cancel_requested": State.CANCELLED,
    "succeeded": State.SUCCEEDED,
    "failed": State.FAILED,
    "cancelled": State.CANCELLED,
}


def test_rows_and_messages_of_each_release_are_kept() -> None:
    # Missing numbers were released together with a later one, and were never the newest that some code knew.
    assert {"0001", "0002", "0007", "0008", "0009", "0011"} <= set(VERSIONS) <= set(schema.MIGRATIONS)
    assert {path.stem for path in (HERE / "messages").glob("*.json")} == set(VERSIONS)


@pytest.fixture
def old_database(addresses: dict[str, str]) -> Iterator[str]:
    with factories.own_database(addresses["DATABASE_URL"]) as url:
        yield url


def upgrade(settings: Settings, to: str) -> None:
    """Run `flask db upgrade` to a version."""
    app = create_app(settings)
    with app.app_context():
        flask_migrate.upgrade(revision=to)
        db.engine.dispose()


def move_to_now(database: Database, made_at: str) -> None:
    """Move every timestamp of the rows, as if they had been written recently."""
    with database.transaction() as session:
        columns = session.execute(
            text(
                "SELECT table_name, column_name FROM information_schema.columns "
                "WHERE table_schema = 'public' AND data_type = 'timestamp with time zone' ORDER BY 1, 2"
            )
        ).all()
        tables: dict[str, list[str]] = {}
        for table, column in columns:
            tables.setdefault(table, []).append(column)
        for table, names in tables.items():
            moved = ", ".join(f"{name} = {name} + (now() - CAST(:made AS timestamptz)) - :age" for name in names)
            statement = text(f"UPDATE {table} SET {moved}".replace(":age", f"interval '{AGE_SECONDS} s'"))
            session.execute(statement, {"made": made_at})


def keep_the_dispatcher_away(database: Database) -> None:
    """Prevent a second message for deliveries that were sent.

    If the first is slow, today's dispatcher would send another.
    """
    with database.transaction() as session:
        session.execute(
            text("UPDATE deliveries SET due_at = now() + interval '1 hour' WHERE dispatched_at IS NOT NULL")
        )


def put_back(queue: DeliveryQueue, version: str) -> list[str]:
    """Restore the messages of that version, byte for byte as RQ wrote them."""
    messages = json.loads((HERE / "messages" / f"{version}.json").read_text())
    for message in messages:
        fields = {name: base64.b64decode(value) for name, value in message["fields"].items()}
        queue.connection.hset(f"rq:job:{message['id']}", mapping=fields)
        queue.connection.sadd("rq:queues", queue.rq.key)
        queue.connection.rpush(queue.rq.key, message["id"])
    return [message["id"] for message in messages]


def burst(tree: Path, addresses: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a worker of that tree until nothing is left to do."""
    if tree == factories.ROOT:
        return completed(["-m", "tasks", "worker", "--burst"], factories.environment(addresses))
    return subprocess.run(
        [sys.executable, "-m", "tasks", "worker", "--burst"],
        cwd=tree,
        env=factories.environment(addresses),
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )


# A site is updated from the last version or the one before, so these two are tried each time.
@pytest.mark.parametrize(
    "version", [*(pytest.param(version, marks=pytest.mark.thorough) for version in VERSIONS[:-2]), *VERSIONS[-2:]]
)
def test_rows_and_messages_of_an_earlier_version_are_worked_off(
    addresses: dict[str, str], old_database: str, queue: DeliveryQueue, version: str
) -> None:
    here = {**addresses, "DATABASE_URL": old_database}
    settings = factories.settings(here)
    lines = (HERE / "rows" / f"{version}.jsonl").read_text().splitlines()
    upgrade(settings, version)
    with Database(settings, "waybill-test") as database:
        backup.restore(database, lines)
        upgrade(settings, "head")
        move_to_now(database, json.loads(lines[0])["made_at"])
        keep_the_dispatcher_away(database)
        queue.mark_as_known()
        (message,) = put_back(queue, version)
        Reconciler(database.transaction, settings, lambda: None).step()
        worker = burst(factories.ROOT, here)
        assert worker.returncode == 0, worker.stderr
        with database.transaction() as session:
            jobs = {job.title: job for job in job_views.jobs(session, state=None, category=None, limit=100)}
            assert {title: job.state for title, job in jobs.items()} == ENDS, worker.stderr
            # The old message was processed: no other was sent.
            assert session.execute(text("SELECT deliveries FROM jobs WHERE title = 'queued'")).scalar_one() == 1
            assert message == f"{jobs['queued'].id.hex}-1"
            assert job_views.orphans(session, grace_seconds=0) == 0


def git(*arguments: str) -> str | None:
    ended = subprocess.run(["git", *arguments], cwd=factories.ROOT, capture_output=True, text=True, check=False)
    return ended.stdout.strip() if ended.returncode == 0 else None


def revision_before_the_newest_migration() -> str:
    """Return the last revision whose code does not know today's schema. Skips if the history is missing."""
    shallow = git("rev-parse", "--is-shallow-repository")
    if shallow is None:
        pytest.skip("the version before is taken from the history, and this is no git repository")
    scripts = ScriptDirectory(factories.ROOT / "webapp" / "migrations")
    newest = Path(scripts.get_revision("head").path).relative_to(factories.ROOT)
    adding = ("--first-parent", "-m", "--diff-filter=A", "--no-renames")  # finds it even if a merge brought it
    added = git("log", *adding, "--format=%H", "-1", "--", str(newest))
    before = git("rev-parse", "--verify", f"{added}^" if added else "HEAD")
    if before is None and shallow == "true":
        pytest.skip("the version before is taken from the history, and this clone has only the end of it")
    assert before is not None
    return before


@pytest.fixture
def tree_before(tmp_path: Path) -> Path:
    """Check out the code of the previous version."""
    archive = tmp_path / "before.tar"
    revision = revision_before_the_newest_migration()
    subprocess.run(["git", "archive", "-o", str(archive), revision], cwd=factories.ROOT, check=True)
    tree = tmp_path / "before"
    tree.mkdir()
    subprocess.run(["tar", "xf", str(archive), "-C", str(tree)], check=True)
    return tree


def test_the_worker_of_the_version_before_works_on_todays_rows_and_messages(
    addresses: dict[str, str],
    settings: Settings,
    database: Database,
    queue: DeliveryQueue,
    account_id: uuid.UUID,
    tree_before: Path,
) -> None:
    scripts = ScriptDirectory(tree_before / "webapp" / "migrations")
    assert scripts.get_current_head() != schema.MIGRATIONS[-1]
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        running = factories.submit(session, account_id, b"It was being worked on. It goes on. It is done.").job_id
        factories.claim(session, running)
        factories.let_the_lease_run_out(session, running)
    Reconciler(database.transaction, settings, lambda: None).step()
    Dispatcher(database.transaction, queue).step()
    keep_the_dispatcher_away(database)
    worker = burst(tree_before, addresses)
    assert worker.returncode == 0, worker.stderr
    with database.transaction() as session:
        assert factories.state_of(session, job_id) is State.SUCCEEDED, worker.stderr
        assert factories.state_of(session, running) is State.SUCCEEDED, worker.stderr
        assert session.execute(text("SELECT deliveries FROM jobs WHERE id = :id"), {"id": job_id}).scalar_one() == 1
        assert job_views.orphans(session, grace_seconds=0) == 0
