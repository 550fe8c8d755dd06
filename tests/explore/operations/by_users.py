"""Operations of people, by the pages or the API. A request whose transaction fails answers with an error."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError, NoResultFound
from sqlalchemy.orm import Session

from tasks.ledger.accounts import limits
from tasks.ledger.accounts.limits import Limit, LimitReached
from tasks.ledger.jobs import deadlines, deletion, transitions
from tasks.ledger.jobs.accept import IdempotencyKeyReused, accept_job_for_document
from tasks.ledger.notifications import preferences
from tests.explore.actor import Actor
from tests.explore.operations.registry import Effect, Run, always, operation, register
from tests.explore.world import ACCOUNT, World, accept, intent, sql, terms
from webapp.models import Account

ORIGINAL_STATE = "SELECT state FROM jobs WHERE id = :job AND content_deleted_at IS NULL"


def _accept(number: int, **more: Any) -> Run:
    def run(world: World, actor: Actor) -> object:
        try:
            with actor.transaction() as session:
                accepted = accept(session, world.settings, number, **more)
        except LimitReached as reached:
            return f"limit {reached.allowance.limit}"
        except IdempotencyKeyReused as reused:
            return type(reused).__name__
        except IntegrityError as error:
            return account_is_gone(error)
        return accepted

    return run


def account_is_gone(error: IntegrityError) -> str:
    """Return the answer to a request whose account was deleted meanwhile. Raises any other error."""
    constraint = getattr(getattr(error.orig, "diag", None), "constraint_name", None) or ""
    if not constraint.endswith("account_id"):
        raise error
    return "account gone"


register("accept_same", _accept(1))
register("accept_same_with_its_key", _accept(1, idempotency_key="key-1"))
register("accept_same_with_new_key", _accept(1, idempotency_key="key-9"))
register("accept_second", _accept(2))
register("accept_third", _accept(3))
register("accept_fourth", _accept(4))
register("accept_third_with_new_key", _accept(3, idempotency_key="key-9"))


@operation()
def accept_again(world: World, actor: Actor) -> object:
    """Request the same about the document that is stored."""
    try:
        with actor.transaction() as session:
            return accept_job_for_document(session, intent(1), world.document, terms(world.settings))
    except LimitReached as reached:
        return f"limit {reached.allowance.limit}"
    except NoResultFound:
        return "original gone"
    except IntegrityError as error:
        return account_is_gone(error)


@operation()
def cancel(world: World, actor: Actor) -> object:
    """Cancel the job."""
    with actor.transaction() as session:
        return transitions.cancel(session, world.job, ACCOUNT)


@operation()
def show_late_job(world: World, actor: Actor) -> object:
    """Open the page of a job whose deadline has passed, as `webapp.jobs.deadlines` does."""
    with actor.transaction() as session:
        expired = transitions.expire(session, world.job, max_interruptions=world.settings.max_interruptions)
    with actor.transaction() as session:
        return deadlines.end_at_deadline(session, world.job) or expired


@operation()
def delete_document(world: World, actor: Actor) -> object:
    """Delete the document with everything made from it."""
    with actor.transaction() as session:
        return deletion.delete_document(session, world.document, ACCOUNT)


@operation(always, Effect.CHANGES_PREFERENCES)
def delete_account(world: World, actor: Actor) -> object:
    """Delete the account with everything that belongs to it."""
    with actor.transaction() as session:
        session.execute(select(Account.id).where(Account.id == ACCOUNT).with_for_update())
        deletion.delete_account_content(session, ACCOUNT)
        session.execute(delete(Account).where(Account.id == ACCOUNT))
    return "deleted"


@operation()
def try_again(world: World, actor: Actor) -> object:
    """Put the failed job back."""
    settings = world.settings

    def put_back(session: Session) -> object:
        if sql(session, ORIGINAL_STATE, job=world.job).scalar_one_or_none() != "failed":
            return "not offered"
        limits.require(session, ACCOUNT, settings.limits, of=(Limit.JOBS_AT_ONCE, Limit.TOKENS_PER_MONTH))
        return transitions.replay(
            session,
            world.job,
            deadline_seconds=settings.job_deadline_seconds,
            more_attempts=settings.max_attempts,
            cause="owner",
            account_id=ACCOUNT,
        )

    try:
        with actor.transaction() as session:
            return put_back(session)
    except LimitReached as reached:
        return f"limit {reached.allowance.limit}"


@operation()
def decline_email_for_job(world: World, actor: Actor) -> object:
    """Turn the e-mail at the end of the job off."""
    with actor.transaction() as session:
        return preferences.set_email_for_job(session, world.job, ACCOUNT, wanted=False)
