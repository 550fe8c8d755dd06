"""Manages sessions and the account that is signed in.

A session is a row, and a signed cookie that holds its id. It is valid while the row exists, was seen within its
lifetime, and has the current stamp of its account. Signing out deletes the row, so a copy of the cookie grants nothing.
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import Any

import structlog
from flask import Response, current_app, g, request, session, url_for
from flask_login import current_user, login_user, logout_user
from sqlalchemy import (
    ColumnElement,
    Double,
    Select,
    Uuid,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from tasks.database import error_name
from tasks.ledger.accounts.disabled import is_disabled
from tasks.ledger.compiled import parameter
from tasks.ledger.sql_intervals import seconds
from webapp.auth import known_devices
from webapp.database import transaction
from webapp.extensions import login
from webapp.http import locale
from webapp.http.htmx import is_htmx
from webapp.http.security import is_api, safe_next
from webapp.models import Account, BrowserSession

log = structlog.get_logger()

SESSION, PROVED = "session", "proved"
PROOF_LASTS_SECONDS = 600
"""Seconds after a sign-in during which a user without a password counts as having just proven who they are."""
MAX_SESSIONS = 100
"""Per account. One more ends the session that has been unused for the longest time."""
DELETED_AT_ONCE = 100
ONE_DAY_SECONDS = 24 * 3600


def current_account() -> Account:
    """Return the account that is signed in. Only for views with `login_required`."""
    account: Account = current_user._get_current_object()
    return account


@login.user_loader  # type: ignore[untyped-decorator]
def load_account(account_id: str) -> Account | None:
    """Load the account of a session, and check the session, in one statement.

    Returns None if the account is gone or disabled, or if the session was ended here or elsewhere.
    """
    session_id, key = _id_in(session.get(SESSION)), _id_in(account_id)
    if session_id is None or key is None:
        return None
    with transaction() as database:
        account: Account | None = database.execute(
            select(Account)
            .join(BrowserSession, BrowserSession.account_id == Account.id)
            .where(Account.id == key, BrowserSession.id == session_id, *_is_valid(seconds(_life_seconds())))
        ).scalar_one_or_none()
    if account is not None:
        locale.prefer(account.language)
    return account


def _is_valid(lifetime: ColumnElement[Any]) -> tuple[ColumnElement[bool], ...]:
    """Return the SQL conditions under which a session grants its account."""
    return (
        BrowserSession.stamp == Account.session_stamp,
        BrowserSession.seen_at > func.now() - lifetime,
        ~is_disabled(Account.id),
    )


def restrict_to_session(query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    """Restrict a query of one account, its parameter `account_id`, to a valid session of that account.

    The other parameters are those of `parameters_of_session`. So a poll checks the session in its only statement.
    """
    lifetime = func.make_interval(0, 0, 0, 0, 0, 0, parameter("lifetime_seconds", Double()))
    valid = select(BrowserSession.id).join(Account, Account.id == BrowserSession.account_id)
    return query.where(
        valid.where(
            Account.id == parameter("account_id", Uuid()),
            BrowserSession.id == parameter("session_id", Uuid()),
            *_is_valid(lifetime),
        )
        .correlate(None)
        .exists()
    )


def parameters_of_session() -> dict[str, object] | None:
    """Return the account and the session that this browser claims, unchecked, for a restricted query.

    Returns None if it claims none.
    """
    session_id, account_id = _id_in(session.get(SESSION)), _id_in(session.get("_user_id"))
    if session_id is None or account_id is None:
        return None
    return {"account_id": account_id, "session_id": session_id, "lifetime_seconds": _life_seconds()}


def _id_in(text: object) -> uuid.UUID | None:
    try:
        return uuid.UUID(str(text))
    except ValueError:
        return None


def _life_seconds() -> float:
    """Return the lifetime of a session after its last use, in seconds: that of its cookie, and the rest of that day."""
    return current_app.permanent_session_lifetime.total_seconds() + ONE_DAY_SECONDS


def begin_session(account: Account, stamp: int | None = None) -> None:
    """Start a new session for this account. Nothing of the browser's earlier session is kept.

    `stamp` None is the one that the account was loaded with. An account that was deleted meanwhile gets no session.
    """
    stamp = account.session_stamp if stamp is None else stamp
    session_id = uuid.uuid4()
    with transaction() as database:
        _delete(database, _id_in(session.get(SESSION)))
        _delete_surplus(database, account.id)
        owner = select(literal(session_id), Account.id, literal(stamp)).where(Account.id == account.id)
        database.execute(insert(BrowserSession).from_select(["id", "account_id", "stamp"], owner))
    session.clear()
    session.permanent = True
    session[SESSION] = session_id.hex
    session[PROVED] = int(time.time())
    login_user(account)
    known_devices.remember(account.id, stamp)


def _delete_surplus(database: Session, account_id: uuid.UUID) -> None:
    """Delete a batch of expired sessions of the whole site, and the oldest sessions of an account that has too many."""
    over = (
        select(BrowserSession.id)
        .where(BrowserSession.seen_at < func.now() - seconds(_life_seconds()))
        .limit(DELETED_AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    too_many = (
        select(BrowserSession.id)
        .where(BrowserSession.account_id == account_id)
        .order_by(BrowserSession.seen_at.desc())
        .offset(MAX_SESSIONS - 1)
    )
    for surplus in (over, too_many):
        database.execute(
            delete(BrowserSession)
            .where(BrowserSession.id.in_(surplus.scalar_subquery()))
            .execution_options(synchronize_session=False)
        )


def _delete(database: Session, session_id: uuid.UUID | None) -> None:
    if session_id is not None:
        database.execute(
            delete(BrowserSession).where(BrowserSession.id == session_id).execution_options(synchronize_session=False)
        )


def end_session() -> None:
    """End the session in this browser, so that a copy of its cookie is worthless, too."""
    session_id = _id_in(session.get(SESSION))
    if session_id is not None:
        with transaction() as database:
            _delete(database, session_id)
    logout_user()
    session.clear()


def current_account_or_none() -> Account | None:
    """Return the account that is signed in, for the page header. None also while the database is unreachable."""
    try:
        if g.get("nobody") or not current_user.is_authenticated:
            return None
    except SQLAlchemyError:
        g.nobody = True
        return None
    return current_account()


def keep_fresh(response: Response) -> Response:
    """Extend the session once a day, when a person opens a page. A poll does not, and writes nothing.

    Extends only a session that this request found valid. If the database fails, the page is sent nevertheless.
    """
    person = g.get("_login_user")
    if request.method != "GET" or is_api() or is_htmx() or g.get("nobody") or not getattr(person, "is_active", False):
        return response
    today = datetime.now(UTC).date().isoformat()
    if session.get("day") == today:
        return response
    try:
        with transaction() as database:
            database.execute(
                update(BrowserSession)
                .where(BrowserSession.id == _id_in(session.get(SESSION)))
                .values(seen_at=func.now())
                .execution_options(synchronize_session=False)
            )
    except SQLAlchemyError as error:
        log.warning("session.not_prolonged", error=error_name(error))
        return response
    session["day"] = today
    return response


def proved_recently() -> bool:
    """Return True if this session began a short time ago with a sign-in."""
    return bool(time.time() - session.get(PROVED, 0) < PROOF_LASTS_SECONDS)


def next_page() -> str:
    """Return the page to open after signing in: a page of this site."""
    return safe_next(asked_next()) or url_for("jobs.home")


def asked_next() -> str | None:
    """Return the requested page to open after signing in. It is not checked."""
    return request.form.get("next") or request.args.get("next")
