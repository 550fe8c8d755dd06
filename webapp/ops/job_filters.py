"""Reads the filters of the operators' job list from the query string."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from tasks.ledger.errors import Category
from tasks.ledger.reports.job_search import JobFilters
from tasks.ledger.states import State
from tasks.workflows import WORKFLOWS
from webapp.auth.email_addresses import MAX_EMAIL_LENGTH, normal_email
from webapp.jobs.messages import BADGES
from webapp.models import Account

HOUR, DAY = 3600.0, 86400.0
AGES: Mapping[str, tuple[str, float | None, float | None]] = {
    "hour": ("in the last hour", HOUR, None),
    "day": ("in the last 24 hours", DAY, None),
    "week": ("in the last 7 days", 7 * DAY, None),
    "over-hour": ("more than an hour ago", None, HOUR),
    "over-day": ("more than 24 hours ago", None, DAY),
    "over-week": ("more than 7 days ago", None, 7 * DAY),
}
"""The age filters: label, and the bounds "younger than" and "older than" in seconds."""
NO_SUCH_ACCOUNT = "There is no account with this address or id."


@dataclass
class Asked:
    """Holds the requested filters. `typed` refills the form; each error is shown beside its field."""

    wanted: JobFilters
    typed: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)


def read(session: Session, arguments: Mapping[str, str]) -> Asked:
    """Read the filters. Invalid values count as not given."""
    names = ("state", "category", "workflow", "age", "account")
    given = {name: arguments.get(name, "").replace("\0", "").strip()[:MAX_EMAIL_LENGTH] for name in names}
    typed = {name: value for name, value in given.items() if value}
    state, category, age = typed.get("state", ""), typed.get("category", ""), AGES.get(typed.get("age", ""))
    asked = Asked(
        JobFilters(
            state=State(state) if state in set(State) else None,
            category=category if category in set(Category) else None,
            account_id=account_of(session, typed["account"]) if "account" in typed else None,
            workflow=typed.get("workflow"),
            younger_than=age[1] if age else None,
            older_than=age[2] if age else None,
        ),
        typed,
    )
    if "account" in typed and asked.wanted.account_id is None:
        asked.errors["account"] = NO_SUCH_ACCOUNT
    return asked


def offered() -> dict[str, list[tuple[str, str]]]:
    """Return the choices of each select of the form: value and label."""
    return {
        "state": [(str(state), word) for state, word in BADGES.items()],
        "category": [(str(category), str(category)) for category in Category],
        "workflow": [(name, workflow.title) for name, workflow in WORKFLOWS.items()],
        "age": [(name, words) for name, (words, _, _) in AGES.items()],
    }


def account_of(session: Session, text: str) -> uuid.UUID | None:
    """Return the id of the account with this e-mail address or id; None if there is none."""
    try:
        found = Account.id == uuid.UUID(text)
    except ValueError:
        found = Account.email == (normal_email(text) or text.lower())
    return session.execute(select(Account.id).where(found)).scalar_one_or_none()


def emails_of(session: Session, account_ids: set[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return the e-mail addresses of these accounts."""
    rows = session.execute(select(Account.id, Account.email).where(Account.id.in_(account_ids)))
    return dict(rows.all())
