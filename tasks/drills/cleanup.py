"""Removes the data of drills from the database and from Redis. All of it is recognised by its names."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select, text
from sqlalchemy.orm import Session

from tasks.database import Database, let_it_idle
from tasks.ledger.accounts import limits
from tasks.ledger.models import Document, Job, Lane
from tasks.ledger.models.workers import Worker
from tasks.queue import DeliveryQueue

ONE_RUN_AT_A_TIME = 7_294_713  # the key of an advisory lock
ADDRESS = re.compile(r"drill-([0-9a-f]{8})@drill\.invalid")
LIKE_ADDRESS = "drill-%@drill.invalid"


@dataclass(frozen=True)
class Names:
    """Holds the names of the account and the queue of one drill; both contain its id."""

    drill_id: str

    @property
    def email(self) -> str:
        """Return the e-mail address of the account. No real address ends with `.invalid` (RFC 2606)."""
        return f"drill-{self.drill_id}@drill.invalid"

    @property
    def queue(self) -> str:
        """Return the name of the queue, which is also the first part of the lane's name."""
        return f"waybill-drill-{self.drill_id}"


def make_account(session: Session, names: Names) -> uuid.UUID:
    """Create an account that nobody can sign in to, by SQL, since the account model belongs to the web part."""
    account_id = uuid.uuid4()
    session.execute(
        text("INSERT INTO accounts (id, email, password_hash, role) VALUES (:id, :email, '-', 'user')"),
        {"id": account_id, "email": names.email},
    )
    return account_id


def left_behind(session: Session) -> list[Names]:
    """Return the names of the drills whose account still exists."""
    rows = session.execute(text("SELECT email FROM accounts WHERE email LIKE :like"), {"like": LIKE_ADDRESS})
    return [Names(found[1]) for email in rows.scalars() if (found := ADDRESS.fullmatch(email))]


def unfinished_of_people(session: Session) -> int:
    """Return how many jobs of accounts other than those of drills are unfinished."""
    people = text("account_id NOT IN (SELECT id FROM accounts WHERE email LIKE :like)").bindparams(like=LIKE_ADDRESS)
    return session.execute(select(func.count()).select_from(Job).where(Job.finished_at.is_(None), people)).scalar_one()


def take_away(database: Database, queue: DeliveryQueue, names: Names) -> None:
    """Remove all data of one drill, whose processes must be gone. The account goes last, so that a crash is noticed.

    Raises QueueUnreachable or SQLAlchemyError; the next run tries again.
    """
    with database.transaction() as session:
        jobs = list(session.execute(select(Job.id).where(Job.queue == names.queue)).scalars())
    queue.delete_all_keys(jobs)
    with database.transaction() as session:
        account_id = session.execute(
            text("SELECT id FROM accounts WHERE email = :email"), {"email": names.email}
        ).scalar_one_or_none()
        session.execute(delete(Job).where(Job.account_id == account_id))
        session.execute(delete(Document).where(Document.account_id == account_id))
        if account_id is not None:
            limits.delete_usage(session, account_id)
        session.execute(delete(Worker).where(Worker.queue == names.queue))
        session.execute(delete(Lane).where(Lane.name.startswith(f"{names.queue}:", autoescape=True)))
        session.execute(text("DELETE FROM accounts WHERE id = :id"), {"id": account_id})


def forget_workers(session: Session, host: str, pids: list[int]) -> None:
    """Remove the heartbeats of processes that were killed; the site would count them as its own workers."""
    for pid in pids:
        session.execute(delete(Worker).where(Worker.name.startswith(f"{host}-{pid}-", autoescape=True)))


def is_alone(connection: Connection) -> bool:
    """Return True if no other run of drills is in progress. Then none can begin until this transaction ends."""
    let_it_idle(connection)  # the transaction lasts as long as the drills
    return bool(
        connection.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": ONE_RUN_AT_A_TIME}).scalar_one()
    )
