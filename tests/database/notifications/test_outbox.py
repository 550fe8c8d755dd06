"""Tests of the notification outbox: each is inserted once, in the transaction of its event, and is never lost."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.jobs import deletion, transitions
from tasks.ledger.models import Job
from tasks.ledger.models.notifications import Channel, Notice, NoticeWish
from tasks.ledger.notifications import outbox, preferences
from tasks.ledger.notifications.outbox import PAUSES_SECONDS, TRIES, PendingNotification, enqueue
from tasks.ledger.states import State
from tests.support import factories

ADDRESS, URL = "ada@example.org", "https://ada.example.org/hook"


def owe(session: Session, key: str = "one", **changed: Any) -> bool:
    values: dict[str, Any] = {
        "queue": factories.QUEUE,
        "channel": Channel.WEBHOOK,
        "target": URL,
        "what": "test",
        "facts": {"word": "pier"},
    }
    return enqueue(session, key=key, **{**values, **changed})


def take(session: Session, limit: int = 10, **more: Any) -> list[PendingNotification]:
    return outbox.take_due(session, queue=factories.QUEUE, channel=Channel.WEBHOOK, limit=limit, **more)


def come_due(session: Session) -> None:
    session.execute(text("UPDATE notices SET due_at = now()"))


def all_notices(session: Session) -> list[Notice]:
    return list(
        session.execute(select(Notice).order_by(Notice.key).execution_options(populate_existing=True)).scalars()
    )


def wants_everything(session: Session, account_id: uuid.UUID) -> None:
    preferences.set_email(session, account_id, ADDRESS, on=True)
    preferences.set_webhook(session, account_id, URL)


def test_a_notice_is_owed_once_under_its_key(database: Database) -> None:
    def first() -> bool:
        with database.transaction() as session:
            return owe(session)

    assert sorted(factories.all_at_once([first] * 4), key=bool) == [False, False, False, True]
    with database.transaction() as session:
        assert factories.count(session, "notices") == 1
        session.execute(text("ALTER TABLE notices DROP CONSTRAINT uq_notices_key"))  # undone below
        session.add(Notice(key="one", queue="q", channel="email", target="t", what="test", facts={}))
        session.flush()
        assert factories.count(session, "notices") == 2, "without the constraint there would be two"
        session.rollback()


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (State.SUCCEEDED, {"email", "webhook"}),
        (State.FAILED, {"email", "webhook"}),
        (State.CANCELLED, {"webhook"}),
    ],
)
def test_an_end_owes_its_owner_what_they_want_in_the_same_transaction(
    database: Database, account_id: uuid.UUID, ending: State, expected: set[str]
) -> None:
    with database.transaction() as session:
        wants_everything(session, account_id)
        job_id = factories.submit(session, account_id, title="Harbour report").job_id
        claim = factories.claim(session, job_id)

    def end(session: Session) -> None:
        if ending is State.SUCCEEDED:
            transitions.succeed(session, claim, text="The pier.", facts={})
        elif ending is State.FAILED:
            transitions.fail(session, claim, category=Category.QUOTA)
        else:
            transitions.cancel(session, job_id, account_id)
            transitions.release(session, claim, reason="cancel", interrupted=False)

    with pytest.raises(ZeroDivisionError), database.transaction() as session:
        end(session)
        assert factories.count(session, "notices") > 0
        1 / 0  # noqa: B018 (the transaction that ends the job is rolled back)
    with database.transaction() as session:
        assert factories.count(session, "notices") == 0
        end(session)
    with database.transaction() as session:
        owed = {notice.channel: notice for notice in all_notices(session)}
        assert set(owed) == expected
        assert {notice.what for notice in owed.values()} == {f"job.{ending}"}
        hook = owed["webhook"]
        assert (hook.target, hook.facts["id"], hook.facts["state"]) == (URL, str(job_id), ending)
        assert "title" not in hook.facts, "a program gets ids"
        if "email" in owed:
            assert (owed["email"].target, owed["email"].facts["title"]) == (ADDRESS, "Harbour report")


@pytest.mark.parametrize("way", ["fail_waiting", "cancel", "expire"])
def test_no_way_to_an_end_forgets_it(database: Database, account_id: uuid.UUID, way: str) -> None:
    with database.transaction() as session:
        wants_everything(session, account_id)
        job_id = factories.submit(session, account_id).job_id
        if way == "fail_waiting":
            transitions.fail_waiting(session, job_id, category=Category.DEADLINE)
        elif way == "cancel":
            transitions.cancel(session, job_id, account_id)
        else:
            factories.claim(session, job_id)
            transitions.cancel(session, job_id, account_id)
            factories.let_the_lease_run_out(session, job_id)
            transitions.expire(session, job_id, max_interruptions=3)
        assert [notice.what for notice in all_notices(session) if notice.channel == "webhook"] == [
            "job.failed" if way == "fail_waiting" else "job.cancelled"
        ]


@pytest.mark.parametrize(
    ("for_all", "for_this", "mails"), [(True, None, 1), (True, False, 0), (False, None, 0), (False, True, 1)]
)
def test_what_is_said_of_one_job_counts_more_than_what_is_said_of_all(
    database: Database, account_id: uuid.UUID, for_all: bool, for_this: bool | None, mails: int
) -> None:
    with database.transaction() as session:
        preferences.set_email(session, account_id, ADDRESS, on=for_all)
        job_id = factories.submit(session, account_id).job_id
        if for_this is not None:
            assert preferences.set_email_for_job(session, job_id, account_id, wanted=for_this)
            assert not preferences.set_email_for_job(session, job_id, uuid.uuid4(), wanted=for_this), "not theirs"
        transitions.succeed(session, factories.claim(session, job_id), text="The pier.", facts={})
        assert factories.count(session, "notices") == mails
        assert not preferences.set_email_for_job(session, job_id, account_id, wanted=True), "it has ended"


def test_a_job_that_is_put_back_and_ends_again_tells_again_and_takes_back_what_was_not_sent(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        wants_everything(session, account_id)
        job_id = factories.submit(session, account_id).job_id
        transitions.fail(session, factories.claim(session, job_id), category=Category.OVERLOADED)
        (hook,) = take(session)
        outbox.mark_sent(session, hook.id)
        transitions.replay(session, job_id, deadline_seconds=60, more_attempts=1, cause="x")
        assert [(notice.channel, notice.what) for notice in all_notices(session)] == [("webhook", "job.failed")]
        transitions.succeed(session, factories.claim(session, job_id), text="The pier.", facts={})
        assert sorted((notice.channel, notice.what) for notice in all_notices(session)) == [
            ("email", "job.succeeded"),
            ("webhook", "job.failed"),
            ("webhook", "job.succeeded"),
        ]


def test_what_was_taken_is_postponed_and_comes_again_under_the_same_key_until_it_is_settled(
    database: Database,
) -> None:
    with database.transaction() as session:
        owe(session)
    with database.transaction() as session:
        (first,) = take(session)
    with database.transaction() as session:
        assert take(session) == [], "it is in the air"
        come_due(session)  # the sender that had it died
        (second,) = take(session)
        assert (second.key, second.attempt) == (first.key, first.attempt + 1)
        assert second.occurred_at == first.occurred_at, "the body is the same at each try"
        outbox.mark_sent(session, second.id)
        come_due(session)
        assert take(session) == []
        (row,) = all_notices(session)
        assert row.sent_at is not None and row.facts == {}, "what it said is not kept"


def test_the_pauses_grow_over_about_a_day_and_then_it_is_given_up(database: Database) -> None:
    waits = []
    with database.transaction() as session:
        owe(session)
    for attempt in range(1, TRIES + 1):
        with database.transaction() as session:
            (notice,) = take(session)
            waits.append(session.execute(text("SELECT extract(epoch FROM due_at - now()) FROM notices")).scalar_one())
            over = outbox.failed(session, notice.id, code="http_500", for_good=False)
            assert over == (attempt == TRIES)
            come_due(session)
    assert waits == [*PAUSES_SECONDS, PAUSES_SECONDS[-1]]
    assert 20 * 3600 < sum(PAUSES_SECONDS) < 28 * 3600
    with database.transaction() as session:
        (row,) = all_notices(session)
        assert (row.gave_up_at is not None, row.error_code, row.facts) == (True, "http_500", {})
        assert take(session) == []


def test_a_permanent_failure_is_given_up_at_once(database: Database) -> None:
    with database.transaction() as session:
        owe(session)
        (notice,) = take(session)
        assert outbox.failed(session, notice.id, code="gone", for_good=True)


def test_two_senders_never_take_the_same(database: Database) -> None:
    with database.transaction() as session:
        for number in range(8):
            owe(session, f"n{number}", target=f"https://{number}.example.org/")

    def some() -> list[str]:
        with database.transaction() as session:
            return [notice.key for notice in take(session, 4)]

    taken = [key for found in factories.all_at_once([some] * 4) for key in found]  # type: ignore[union-attr]
    assert sorted(taken) == sorted(set(taken))
    with database.transaction() as session:
        taken += [notice.key for notice in take(session)]
    assert sorted(taken) == [f"n{number}" for number in range(8)]


def test_a_target_with_many_does_not_hold_up_the_others(database: Database) -> None:
    with database.transaction() as session:
        for number in range(20):
            owe(session, f"many{number}")
    with database.transaction() as session:
        owe(session, "one of somebody else", target="https://bob.example.org/")
        assert {notice.target for notice in take(session, 4)} == {URL, "https://bob.example.org/"}
        come_due(session)
        assert {notice.target for notice in take(session, 4, busy_targets=[URL])} == {"https://bob.example.org/"}


def test_what_is_of_no_use_any_more_is_given_up_and_old_rows_go(database: Database) -> None:
    with database.transaction() as session:
        owe(session, "short", useful_for_seconds=60)
        owe(session, "fresh")
        owe(session, "old")
        session.execute(text("UPDATE notices SET expires_at = now() WHERE key = 'short'"))
        session.execute(text("UPDATE notices SET created_at = now() - interval '3 days' WHERE key = 'old'"))
        assert outbox.give_up_useless(session, queue=factories.QUEUE, older_than_seconds=2 * 86_400) == 2
        assert [notice.key for notice in take(session)] == ["fresh"]
        assert outbox.delete_sent(session, queue=factories.QUEUE, older_than_seconds=86_400) == 1
        assert [notice.key for notice in all_notices(session)] == ["fresh", "short"]


def test_deleting_forgets_what_was_owed(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        other = factories.make_account(session)
        for owner in (account_id, other):
            wants_everything(session, owner)
            transitions.succeed(
                session, factories.claim(session, factories.submit(session, owner).job_id), text="The pier.", facts={}
            )
        owe(session, "reset", account_id=account_id)
        document_id = session.execute(select(Job.document_id).where(Job.account_id == account_id)).scalar_one()
        deletion.delete_document(session, document_id, account_id)
        theirs = select(Notice.key).where(Notice.account_id == account_id)
        assert session.execute(theirs).scalars().all() == ["reset"]
        deletion.delete_account_content(session, account_id)
        assert session.execute(theirs).all() == []
        assert session.execute(select(NoticeWish.account_id)).scalars().all() == [other]
        assert len(all_notices(session)) == 2


def test_each_webhook_gets_a_secret_of_its_own_and_is_signed_only_while_it_is_wanted(
    database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        first = preferences.set_webhook(session, account_id, URL)
        second = preferences.set_webhook(session, account_id, URL)
        assert first != second and second.startswith("whsec_")
        assert preferences.secret_for(session, account_id, URL) == second
        assert preferences.secret_for(session, account_id, "https://other.example.org/") is None
        preferences.remove_webhook(session, account_id)
        assert preferences.secret_for(session, account_id, URL) is None


def test_an_end_does_not_wait_for_an_account_that_is_being_deleted(database: Database, account_id: uuid.UUID) -> None:
    """Deleting an account locks the account, then its jobs. Ending a job must not lock the account: a deadlock."""
    with database.transaction() as session:
        wants_everything(session, account_id)
        claim = factories.claim(session, factories.submit(session, account_id).job_id)
    with database.transaction() as deleting:
        deleting.execute(text("SELECT 1 FROM accounts WHERE id = :id FOR UPDATE"), {"id": account_id})
        with database.transaction() as ending:
            ending.execute(text("SET LOCAL lock_timeout = '200ms'"))
            transitions.succeed(ending, claim, text="The pier.", facts={})
            assert factories.count(ending, "notices") == 2
        with pytest.raises(OperationalError), database.transaction() as other:
            other.execute(text("SET LOCAL lock_timeout = '200ms'"))
            factories.submit(other, account_id, b"a row that refers to the account, as a notice does not")
        deletion.delete_account_content(deleting, account_id)
    with database.transaction() as session:
        assert factories.count(session, "notices") == 0
