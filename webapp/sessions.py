"""Who is signed in, and what a session is worth.

A session is a signed cookie, so the site cannot take it back; what it can do is to stop believing it. Each carries the
stamp its account had when it began, and counts while the account still has that one.
"""

from __future__ import annotations

import time
import uuid

from flask import request, session, url_for
from flask_login import current_user, login_user, logout_user

from webapp import languages
from webapp.extensions import login
from webapp.models import Account
from webapp.security import safe_next
from webapp.transactions import transaction

STAMP, PROVED = "stamp", "proved"
PROOF_LASTS_SECONDS = 600
"""For so long after signing in, whoever has no password counts as having just shown who they are."""


def viewer() -> Account:
    """Whoever is signed in. Only where `login_required` stands."""
    account: Account = current_user._get_current_object()
    return account


@login.user_loader  # type: ignore[untyped-decorator]
def load_account(account_id: str) -> Account | None:
    """The account of a session; None if it is gone, or if the session was ended from elsewhere."""
    try:
        key = uuid.UUID(account_id)
    except ValueError:
        return None
    with transaction() as database:
        account = database.get(Account, key)
    # A session without a stamp is of the release before stamps; every account had 0 then.
    if account is None or session.get(STAMP, 0) != account.session_stamp:
        return None
    languages.prefer(account.language)
    return account


def begin_session(account: Account, stamp: int | None = None) -> None:
    """A session of its own for this person: nothing that was in the browser's before lives on in it.

    `stamp` None: the one that the account was loaded with.
    """
    session.clear()
    session.permanent = True
    session[STAMP] = account.session_stamp if stamp is None else stamp
    session[PROVED] = int(time.time())
    login_user(account)


def end_session() -> None:
    """End the session in this browser."""
    logout_user()
    session.clear()


def proved_lately() -> bool:
    """Whether this session began a short time ago, by a sign-in."""
    return bool(time.time() - session.get(PROVED, 0) < PROOF_LASTS_SECONDS)


def next_page() -> str:
    """Where to go on after signing in: a page of this site."""
    return safe_next(asked_next()) or url_for("jobs.home")


def asked_next() -> str | None:
    """Where the request wants to go on. Anything may stand there."""
    return request.form.get("next") or request.args.get("next")
