"""Resets a forgotten password by a mailed link, on sites that can send mail.

Nothing here reveals whether an address is known: the response is the same, after the same work. The link is signed when
the mail is written, so no row holds it. It is bound to the password that it replaces, so it works once.
"""

from __future__ import annotations

import uuid

import structlog
from flask import abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tasks.ledger.notifications import outbox as ledger
from tasks.notifications.signed_links import read_token
from webapp.accounts import forms, messages
from webapp.accounts.blueprint import accounts, form_on
from webapp.accounts.forms import Credentials
from webapp.auth import api_tokens, known_devices
from webapp.auth.accounts import (
    account_with,
    change_password,
    close_other_ways_in,
    password_stamp,
    prove_address,
    revoke_tokens_with_password,
)
from webapp.auth.attempt_limits import limit_mails, may_be_mailed
from webapp.auth.password_rules import password_problem
from webapp.auth.passwords import hash_password
from webapp.auth.sessions import end_session
from webapp.database import transaction
from webapp.extensions import limiter
from webapp.http.errors import not_found
from webapp.models import Account
from webapp.notifications.outgoing import enqueue_mail
from webapp.services import services

log = structlog.get_logger()

PURPOSE = "password reset"
LINK_LIVES_SECONDS = 3600
NEWS_LIVES_SECONDS = 24 * 3600.0


@accounts.get("/reset")
def forgotten() -> ResponseReturnValue:
    """Show the form that asks for the link."""
    return asking_page(Credentials("", ""), 200)


@accounts.post("/reset")
@limit_mails(when=lambda: True)
@form_on("accounts.forgotten", lambda given, status: asking_page(given, status))
def ask_for_link() -> ResponseReturnValue:
    """Enqueue a mail with the link if there is an account, and give everybody the same response."""
    _require_mail()
    given = forms.read_address(request.form)
    if given.errors:
        return asking_page(given, 422)
    may_send = may_be_mailed()
    with transaction() as database:
        account = account_with(database, given.email)
        if account is None or not may_send:
            ledger.enqueue_to_nobody(database, queue=services().settings.queue_name, what="password.reset")
        else:
            facts = {"account": account.id.hex, "stamp": password_stamp(account.password_hash)}
            enqueue_mail(
                database,
                account.email,
                "password.reset",
                facts,
                account_id=account.id,
                useful_for_seconds=LINK_LIVES_SECONDS,
            )
    return render_template("accounts/check_your_email.html", about="reset", address=given.email), 200


def asking_page(given: Credentials, status: int) -> ResponseReturnValue:
    """Show the form for the e-mail address. Not found where the site cannot send mail."""
    if not services().settings.can_mail:
        return not_found()
    return render_template("accounts/request_password_reset.html", given=given), status


@accounts.get("/reset/<token>")
def choose_new_password(token: str) -> ResponseReturnValue:
    """Show the page of a mailed link. Only its button changes anything: mail scanners open links, too."""
    with transaction() as database:
        account = _account_of(database, token)
    if account is None:
        return _link_expired()
    return new_password_page(token, account, Credentials(account.email, ""), 200)


@accounts.post("/reset/<token>")
@limiter.limit("30 per hour")
def reset_password(token: str) -> ResponseReturnValue:
    """Set a new password. This ends all sessions and invalidates other reset links."""
    with transaction() as database:
        account = _account_of(database, token)
    if account is None:
        return _link_expired()
    credentials = Credentials(account.email, request.form.get("password", ""))
    problem = password_problem(credentials.password, credentials.email)
    if problem:
        credentials.errors["password"] = problem
        return new_password_page(token, account, credentials, 422)
    new_hash = hash_password(credentials.password)
    unproven = account.email_proven_at is None
    with transaction() as database:
        stamp = change_password(database, account, new_hash)
        if stamp is None:
            return _link_expired()
        revoked = revoke_tokens_with_password(database, account, requested="revoke_tokens" in request.form)
        if unproven:  # the account may have been made by somebody who does not own the address
            close_other_ways_in(database, account.id)
        prove_address(database, account.id)
        owe_news_of_password(database, account)
    log.info("account.password_reset", account=account.id.hex, unproven=unproven)
    end_session()
    known_devices.remember(account.id, stamp)  # reading the mail proves that this browser is not guessing
    flash(str(messages.RESET_DONE))
    if revoked and not unproven:
        flash(messages.tokens_revoked(revoked))
    if unproven:
        flash(str(messages.RESET_TOOK_BACK))
    return redirect(url_for("accounts.sign_in"), 303)


def owe_news_of_password(database: Session, account: Account) -> None:
    """Mail the owner that the password was changed, in case somebody else did it."""
    if services().settings.can_mail:
        enqueue_mail(
            database,
            account.email,
            "password.changed",
            {},
            account_id=account.id,
            useful_for_seconds=NEWS_LIVES_SECONDS,
        )


def _account_of(database: Session, token: str) -> Account | None:
    """Return the account of a reset link. Returns None if the link is used, expired, or was not signed by this site."""
    _require_mail()
    facts = read_token(services().settings, PURPOSE, token, max_age_seconds=LINK_LIVES_SECONDS)
    if facts is None or len(facts) != 2:
        return None
    account = database.get(Account, uuid.UUID(facts[0]))
    return account if account is not None and password_stamp(account.password_hash) == facts[1] else None


def new_password_page(token: str, account: Account, credentials: Credentials, status: int) -> ResponseReturnValue:
    """Show the form for the new password of this account."""
    action = url_for("accounts.reset_password", token=token)
    with transaction() as database:
        owned = api_tokens.tokens_of(database, account.id)
    page = render_template(
        "accounts/choose_password.html",
        wanted=credentials,
        action=action,
        about="reset",
        account=account,
        tokens=owned,
    )
    return page, status


def _link_expired() -> ResponseReturnValue:
    flash(str(messages.RESET_LINK_OVER))
    return redirect(url_for("accounts.forgotten"), 303)


def _require_mail() -> None:
    if not services().settings.can_mail:
        abort(404)
