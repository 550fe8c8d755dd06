from __future__ import annotations

import subprocess
import uuid

import pytest

from tasks.cli import jobs as cli_jobs
from tasks.cli.jobs import NotFound
from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.keys import reference_of
from tasks.ledger.states import State
from tasks.settings import Settings
from tests.support import factories
from tests.support.processes.fork_server import completed


def fail(database: Database, account_id: uuid.UUID, content: bytes, category: Category) -> uuid.UUID:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id, content, title="A secret title").job_id
        transitions.fail(session, factories.claim(session, job_id), category=category)
    return job_id


def test_a_job_is_found_by_its_reference_and_shown_without_its_title(
    settings: Settings, database: Database, account_id: uuid.UUID
) -> None:
    job_id = fail(database, account_id, b"a text", Category.QUOTA)
    for name in (reference_of(job_id), reference_of(job_id).lower(), str(job_id), job_id.hex):
        shown = "\n".join(cli_jobs.shown(settings, name))
        assert str(job_id) in shown and "quota" in shown and "failed" in shown
        assert "secret title" not in shown
    listed = cli_jobs.listed(settings, state=State.FAILED, category=None, limit=10)
    assert len(listed) == 1 and "secret title" not in listed[0]
    assert cli_jobs.listed(settings, state=State.QUEUED, category=None, limit=10) == []


def test_a_waiting_job_is_cancelled_from_the_command_line(
    settings: Settings, database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
    assert cli_jobs.cancelled(settings, str(job_id)) == [f"{reference_of(job_id)}  cancelled"]
    assert cli_jobs.cancelled(settings, str(job_id)) == [f"{reference_of(job_id)}  too late"]


@pytest.mark.parametrize("name", ["nonsense", "7d1f0c1e-0000-4000-8000-000000000000", "WB-0000-0000"])
def test_a_name_that_means_no_job_is_reported(settings: Settings, database: Database, name: str) -> None:
    with pytest.raises(NotFound):
        cli_jobs.shown(settings, name)


def test_the_commands_answer_on_stdout_and_refuse_with_one(addresses: dict[str, str], database: Database) -> None:
    def jobs(*arguments: str) -> subprocess.CompletedProcess[str]:
        return completed(["-m", "tasks", "jobs", *arguments], factories.environment(addresses))

    assert (jobs("list").stdout, jobs("list").returncode) == ("none\n", 0)
    missing = jobs("show", "WB-0000-0000")
    assert (missing.stdout, missing.stderr, missing.returncode) == ("", "WB-0000-0000 is no job.\n", 1)
    assert jobs("replay", "--category", "quota").returncode == 2  # a cause is required
