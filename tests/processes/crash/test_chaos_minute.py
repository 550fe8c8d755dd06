"""A short chaos run: 24 jobs, 2 workers, and failures of all services. `make chaos` is the long run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.fake_provider.http_server import Seen
from tasks.ledger.calls import calls
from tasks.ledger.calls.calls import CallReport
from tasks.ledger.jobs import transitions
from tasks.ledger.states import CallOutcome
from tests.chaos.verdict import PROMISES, violations
from tests.support import factories

SHORT = ["--jobs", "24", "--workers", "2", "--trouble", "12"]


@pytest.mark.thorough
@pytest.mark.crash
@pytest.mark.timeout(150)
def test_every_promise_is_kept_while_everything_goes_wrong() -> None:
    own_services = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.run", *SHORT],
        cwd=factories.ROOT,
        env=own_services,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every promise was kept" in done.stdout


BREAK = {
    "jobs without an end": "UPDATE jobs SET state = 'queued', finished_at = NULL",
    "deliveries still owed": (
        "INSERT INTO deliveries (job_id, queue, number, due_at, not_before, dispatches)"
        " SELECT id, queue, 1, now(), now(), 0 FROM jobs"
    ),
    "succeeded without a result": "DELETE FROM results",
    "results of jobs that did not succeed": "UPDATE jobs SET state = 'cancelled'",
    "results of another claim than the one that succeeded": "UPDATE results SET generation = 2",
    "attempts without an end": "UPDATE attempts SET ended_at = NULL, outcome = NULL",
    "jobs with more attempts than allowed": "UPDATE jobs SET attempts = 4",
    "provider calls without an end": "UPDATE provider_calls SET ended_at = NULL, outcome = 'open'",
    "claims with more than one call": (
        "INSERT INTO provider_calls SELECT (jsonb_populate_record(provider_calls,"
        " jsonb_build_object('id', gen_random_uuid()))).* FROM provider_calls"
    ),
    "steps whose call was lost more than twice": (
        "INSERT INTO provider_calls SELECT (jsonb_populate_record(provider_calls,"
        " jsonb_build_object('id', gen_random_uuid(), 'outcome', 'unknown'))).* FROM provider_calls,"
        " generate_series(1, 3)"
    ),
    "attempts longer than their bounds": "UPDATE attempts SET started_at = now() - interval '1 hour'",
    "jobs ended too long after their deadline": "UPDATE jobs SET deadline_at = now() - interval '1 hour'",
    "accepted jobs without a row": "DELETE FROM jobs",
    "provider requests without a row": "DELETE FROM provider_calls",
}


@pytest.mark.parametrize("promise", [*BREAK, None])
def test_a_broken_promise_is_seen(database: Database, account_id: uuid.UUID, promise: str | None) -> None:
    with database.transaction() as session:
        job_id = factories.submit(session, account_id).job_id
        call_id = a_job_that_went_well(session, job_id)
        if promise is not None:
            session.execute(text(BREAK[promise]))
        request = Seen(1, time.time(), "/v1/responses", {"x-client-request-id": str(call_id)}, b"", "ok", done=True)
        found = violations(session, accepted=[job_id], requests=[request], bound=20)
    assert found == [] if promise is None else f"1 {promise}" in found


def test_a_second_result_of_the_same_document_is_seen(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        jobs = [factories.submit(session, account_id, fresh_run_key=key).job_id for key in (None, "again")]
        for job_id in jobs:
            a_job_that_went_well(session, job_id)
        assert violations(session, accepted=jobs, requests=[], bound=20) == ["1 documents with more than one result"]


def a_job_that_went_well(session: Session, job_id: uuid.UUID) -> uuid.UUID:
    """Claim the job, make its call, save its result, and return the id of the call."""
    claim = factories.claim(session, job_id)
    call_id = calls.open_call(session, job_id, claim.generation, factories.CALL)
    assert isinstance(call_id, uuid.UUID)
    calls.close_call(session, call_id, CallReport(CallOutcome.SUCCEEDED))
    transitions.succeed(session, claim, text="A summary.", facts={})
    return call_id


def test_every_promise_of_the_verdict_has_been_seen_broken() -> None:
    assert set(PROMISES) - set(BREAK) == {"documents with more than one result"}  # the test above
