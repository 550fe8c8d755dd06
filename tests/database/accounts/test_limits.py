"""Tests of the limits: each job is counted once, concurrent requests are counted, and deleting gives nothing back."""

from __future__ import annotations

import threading
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.ledger.accounts import limits
from tasks.ledger.accounts.limits import Allowance, Limit, LimitReached
from tasks.ledger.calls import calls
from tasks.ledger.calls.calls import CallReport
from tasks.ledger.jobs import deletion, transitions
from tasks.ledger.jobs.accept import AcceptedJob
from tasks.ledger.states import CallOutcome
from tasks.ledger.terms import Limits
from tests.support import factories

NO_LIMITS = Limits()


def submit(database: Database, account_id: uuid.UUID, content: str, site: Limits, **more: Any) -> AcceptedJob:
    with database.transaction() as session:
        return factories.submit(session, account_id, content.encode(), limits=site, **more)


def refused(database: Database, account_id: uuid.UUID, content: str, site: Limits, **more: Any) -> Allowance:
    with pytest.raises(LimitReached) as reached:
        submit(database, account_id, content, site, **more)
    return reached.value.allowance


def used(database: Database, account_id: uuid.UUID, site: Limits = NO_LIMITS) -> dict[Limit, int]:
    with database.transaction() as session:
        return {limit: allowance.used for limit, allowance in limits.usage_of(session, account_id, site).items()}


def move_back(database: Database, hours: float) -> None:
    """Move the times of acceptance back, as if so many hours had passed."""
    with database.transaction() as session:
        session.execute(text("UPDATE accepted_jobs SET at = at - make_interval(secs => :s)"), {"s": hours * 3600})


def spend(session: Session, job_id: uuid.UUID, tokens: tuple[int | None, int | None] = (900, 100)) -> uuid.UUID:
    claim = factories.claim(session, job_id)
    call_id = calls.open_call(session, job_id, claim.generation, factories.CALL)
    assert isinstance(call_id, uuid.UUID)
    report = CallReport(CallOutcome.SUCCEEDED, input_tokens=tokens[0], output_tokens=tokens[1])
    assert calls.close_call(session, call_id, report)
    return call_id


def test_the_daily_limit_allows_the_next_job_when_the_oldest_is_a_day_old(
    database: Database, account_id: uuid.UUID
) -> None:
    site = Limits(jobs_per_day=2)
    submit(database, account_id, "one", site)
    move_back(database, hours=5)
    submit(database, account_id, "two", site)
    over = refused(database, account_id, "three", site)
    assert (over.limit, over.used, over.maximum, over.left) == (Limit.JOBS_PER_DAY, 2, 2, 0)
    assert over.until is not None
    assert abs(over.until - over.now - timedelta(hours=19)) < timedelta(minutes=1)
    move_back(database, hours=20)
    submit(database, account_id, "three", site)
    refused(database, account_id, "four", site)
    with database.transaction() as session:
        assert factories.count(session, "jobs") == 3, "what was refused left nothing behind"
        assert factories.count(session, "documents") == 3
        assert factories.count(session, "accepted_jobs") == 2, "what is older than a day is forgotten"
        somebody = factories.make_account(session)
    submit(database, somebody, "one", site)


def test_a_lowered_limit_allows_the_next_job_when_enough_are_no_longer_counted(
    database: Database, account_id: uuid.UUID
) -> None:
    for name in ("one", "two", "three"):
        submit(database, account_id, name, NO_LIMITS)
        move_back(database, hours=2)
    over = refused(database, account_id, "four", Limits(jobs_per_day=1))
    assert over.until is not None and over.used == 3
    assert abs(over.until - over.now - timedelta(hours=22)) < timedelta(minutes=1)


def test_the_same_request_again_is_neither_counted_nor_refused(database: Database, account_id: uuid.UUID) -> None:
    site = Limits(jobs_per_day=1, jobs_at_once=1)
    first = submit(database, account_id, "one", site, idempotency_key="k")
    for key in ("k", "another", None):
        again = submit(database, account_id, "one", site, idempotency_key=key)
        assert (again.job_id, again.created) == (first.job_id, False)
    assert used(database, account_id)[Limit.JOBS_PER_DAY] == 1
    refused(database, account_id, "one", site, fresh_run_key="on purpose")


def test_a_document_that_is_deleted_counts_for_the_day_and_its_tokens_for_the_month(
    database: Database, account_id: uuid.UUID
) -> None:
    job_id = submit(database, account_id, "one", NO_LIMITS).job_id
    with database.transaction() as session:
        spend(session, job_id)
        document = session.execute(text("SELECT document_id FROM jobs")).scalar_one()
        deletion.delete_document(session, document, account_id)
        assert factories.count(session, "jobs") == 0
    assert used(database, account_id) == {
        Limit.JOBS_PER_DAY: 1,
        Limit.JOBS_AT_ONCE: 0,
        Limit.TOKENS_PER_MONTH: 1000,
    }
    with database.transaction() as session:
        limits.set_limits(session, account_id, {Limit.JOBS_PER_DAY: 5})
        deletion.delete_account_content(session, account_id)
        for table in ("accepted_jobs", "tokens_of_months", "account_limits"):
            assert factories.count(session, table) == 0, table


def test_the_limit_of_unfinished_jobs_holds_until_one_ends(database: Database, account_id: uuid.UUID) -> None:
    site = Limits(jobs_at_once=2)
    first = submit(database, account_id, "one", site, deadline_seconds=300).job_id
    submit(database, account_id, "two", site, deadline_seconds=900)
    over = refused(database, account_id, "three", site)
    assert (over.limit, over.used) == (Limit.JOBS_AT_ONCE, 2) and over.until is not None
    assert timedelta(seconds=200) < over.until - over.now <= timedelta(seconds=300)
    with database.transaction() as session:
        assert transitions.cancel(session, first, account_id)
    submit(database, account_id, "three", site)


def test_tokens_are_counted_once_and_end_with_the_month(database: Database, account_id: uuid.UUID) -> None:
    site = Limits(tokens_per_month=1500)
    with database.transaction() as session:
        job_id = factories.submit(session, account_id, limits=site).job_id
        call_id = spend(session, job_id)
        assert not calls.close_call(session, call_id, CallReport(CallOutcome.SUCCEEDED, input_tokens=5)), "closed"
    assert used(database, account_id)[Limit.TOKENS_PER_MONTH] == 1000
    with database.transaction() as session:
        spend(session, factories.submit(session, account_id, b"two", limits=site).job_id, (None, 700))
    over = refused(database, account_id, "three", site)
    assert (over.limit, over.used, over.left) == (Limit.TOKENS_PER_MONTH, 1700, 0)
    now = over.now.astimezone(UTC)
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    assert over.until == datetime(year, month, 1, tzinfo=UTC)
    with database.transaction() as session:
        session.execute(text("UPDATE tokens_of_months SET begins_at = begins_at - interval '1 month'"))
    submit(database, account_id, "three", site)


def test_of_several_limits_the_one_that_lasts_longest_is_reported(database: Database, account_id: uuid.UUID) -> None:
    site = Limits(jobs_per_day=1, jobs_at_once=1)
    submit(database, account_id, "one", site)
    assert refused(database, account_id, "two", site).limit is Limit.JOBS_PER_DAY


def test_an_operator_sets_limits_of_one_account(database: Database, account_id: uuid.UUID) -> None:
    site = Limits(jobs_per_day=1, jobs_at_once=1)
    with database.transaction() as session:
        limits.set_limits(session, account_id, {Limit.JOBS_PER_DAY: 0, Limit.JOBS_AT_ONCE: 2})
        assert limits.limits_of(session, account_id, site) == Limits(None, 2, None)
        assert limits.own_limits(session, account_id) == Limits(0, 2, None)
    submit(database, account_id, "one", site)
    submit(database, account_id, "two", site)
    assert refused(database, account_id, "three", site).limit is Limit.JOBS_AT_ONCE
    with database.transaction() as session:
        limits.set_limits(session, account_id, dict.fromkeys(Limit))
        assert limits.limits_of(session, account_id, site) == site


def submit_together(database: Database, account_id: uuid.UUID, count: int) -> list[AcceptedJob | Exception]:
    site = Limits(jobs_per_day=2, jobs_at_once=2)
    submit(database, account_id, "the first", site)
    works = [lambda n=n: submit(database, account_id, f"text {n}", site) for n in range(count)]  # type: ignore[misc]
    return factories.all_at_once(works)


@pytest.mark.race
def test_the_last_free_job_is_given_once(database: Database, account_id: uuid.UUID) -> None:
    answers = submit_together(database, account_id, 4)
    assert sum(isinstance(answer, AcceptedJob) for answer in answers) == 1
    assert sum(isinstance(answer, LimitReached) for answer in answers) == 3, answers


@pytest.mark.race
def test_control_counting_without_its_lock_gives_the_last_free_job_to_all(
    database: Database, account_id: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_counted, alone, count = threading.Barrier(4), threading.Event(), limits.usage_of

    def count_together(*arguments: Any, **more: Any) -> limits.LimitUsage:
        found = count(*arguments, **more)
        if alone.is_set():
            all_counted.wait(10)
        alone.set()  # the first submit runs alone
        return found

    monkeypatch.setattr(limits, "usage_of", count_together)
    monkeypatch.setattr(limits, "_lock_account", lambda session, account_id: None)
    answers = submit_together(database, account_id, 4)
    assert all(isinstance(answer, AcceptedJob) for answer in answers), answers
