"""Signs users in and out."""

from __future__ import annotations

import structlog
from flask import get_flashed_messages, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user
from sqlalchemy import update

from tasks.ledger.accounts import disabled
from webapp.accounts import forms, messages
from webapp.accounts.blueprint import accounts, form_on
from webapp.accounts.forms import Credentials
from webapp.auth import password_rules
from webapp.auth.accounts import account_with
from webapp.auth.attempt_limits import limit_sign_ins
from webapp.auth.passwords import hash_password, needs_rehash, verify
from webapp.auth.sessions import asked_next, begin_session, end_session, next_page
from webapp.database import transaction
from webapp.http.security import safe_next
from webapp.models import Account
from webapp.services import services

log = structlog.get_logger()


@accounts.get("/login")
def sign_in() -> ResponseReturnValue:
    """Show the sign-in form."""
    if current_user.is_authenticated:
        return redirect(next_page())
    return sign_in_page(Credentials("", ""), 200)


@accounts.post("/login")
@limit_sign_ins
@form_on("accounts.sign_in", lambda given, status: sign_in_page(given, status))
def open_session() -> ResponseReturnValue:
    """Sign in. Every wrong pair gets the same response after the same work."""
    given = forms.read_sign_in(request.form)
    with transaction() as database:
        account = account_with(database, given.email)
    password = given.password[: password_rules.MAX_LENGTH + 1]
    if not verify(password, account.password_hash if account else None) or account is None:
        given.errors["password"] = messages.WRONG
        return sign_in_page(given, 401)
    if is_locked_out(account):
        given.errors["form"] = messages.DISABLED
        return sign_in_page(given, 403)
    if needs_rehash(account.password_hash):
        renew_hash(account, hash_password(password))
    begin_session(account)
    return redirect(next_page(), 303)


def is_locked_out(account: Account) -> bool:
    """Return True if an operator has disabled the account. Call it only once the user has proven to own the account."""
    with transaction() as database:
        since = disabled.disabled_since(database, account.id)
    if since is not None:
        log.info("account.disabled_sign_in", account=account.id.hex)
    return since is not None


def renew_hash(account: Account, new_hash: str) -> None:
    """Store the same password with the current hash parameters, unless it was changed meanwhile."""
    with transaction() as database:
        database.execute(
            update(Account)
            .where(Account.id == account.id, Account.password_hash == account.password_hash)
            .values(password_hash=new_hash)
            .execution_options(synchronize_session=False)
        )


def sign_in_page(given: Credentials, status: int) -> ResponseReturnValue:
    settings = services().settings
    page = render_template(
        "accounts/sign_in.html",
        given=given,
        registration=settings.registration,
        can_reset=settings.can_mail,
        service=settings.sign_in_service,
        next=safe_next(asked_next()),
        done=get_flashed_messages(),
    )
    return page, status


@accounts.post("/logout")
def sign_out() -> ResponseReturnValue:
    """End the session in this browser."""
    end_session()
    return redirect(url_for("accounts.sign_in"), 303)
