"""Creates accounts: by open registration, by invitation, and by a mailed link where the site can send mail.

With mail, the form asks for the address alone, and everybody gets the same response after the same work: people who
already have an account learn it from the mail. Without mail, the form must reveal that an address is taken.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import structlog
from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user
from sqlalchemy import func
from sqlalchemy.exc import IntegrityError

from tasks.ledger.notifications import outbox
from tasks.notifications.signed_links import read_token
from webapp.accounts import forms, messages
from webapp.accounts.blueprint import accounts, form_on
from webapp.accounts.forms import Credentials
from webapp.auth import invitations
from webapp.auth.accounts import account_with
from webapp.auth.attempt_limits import limit_mails, may_be_mailed
from webapp.auth.password_rules import password_problem
from webapp.auth.passwords import hash_password
from webapp.auth.sessions import asked_next, begin_session, next_page
from webapp.database import transaction
from webapp.extensions import limiter
from webapp.http.security import safe_next
from webapp.models import Account, Invitation
from webapp.notifications.outgoing import enqueue_mail
from webapp.services import services

log = structlog.get_logger()

PURPOSE = "registration"
LINK_LIVES_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Entrance:
    """Tells whether an account may be created by this request, and with which invitation if one is needed."""

    is_open: bool
    token: str = ""
    invitation: Invitation | None = None


def entrance(token: str) -> Entrance:
    """Return what the token of an invitation permits; with an empty token, what is open to everybody."""
    setting = services().settings.registration
    if setting != "invite":
        return Entrance(setting == "open")
    with transaction() as database:
        invitation = invitations.open_one(database, token) if token else None
    return Entrance(invitation is not None, token, invitation)


@accounts.get("/register")
def register() -> ResponseReturnValue:
    """Show the form for a new account, or why there is none."""
    if current_user.is_authenticated:
        return redirect(url_for("jobs.home"))
    status = {"open": 200, "invite": 200, "closed": 404}[services().settings.registration]
    return registration_page(Credentials("", ""), status)


@accounts.get("/invitation/<token>")
def invited(token: str) -> ResponseReturnValue:
    """Show the form to somebody who was invited."""
    if current_user.is_authenticated:
        return redirect(url_for("jobs.home"))
    access = entrance(token)
    address = access.invitation.email if access.invitation else None
    return registration_page(Credentials(address or "", ""), 200 if access.is_open else 404, token=token)


@accounts.post("/register")
@limit_mails(when=lambda: services().settings.can_mail)
@form_on("accounts.register", lambda given, status: registration_page(given, status))
def create_account() -> ResponseReturnValue:
    """Create an account and sign in; where the site can send mail, mail a link that creates it instead."""
    access = entrance(request.form.get("invitation", ""))
    if not access.is_open:
        return registration_page(Credentials("", ""), 403)
    by_mail = services().settings.can_mail
    credentials = forms.read_address(request.form) if by_mail else forms.read_registration(request.form)
    if access.invitation is not None and access.invitation.email not in (None, credentials.email):
        credentials.errors["email"] = messages.invited_other(access.invitation.email)
    if credentials.errors:
        return registration_page(credentials, 422)
    if by_mail:
        owe_link(credentials.email, access.invitation)
        return render_template("accounts/check_your_email.html", about="register", address=credentials.email), 200
    account = Account(email=credentials.email, password_hash=hash_password(credentials.password))
    try:
        add_account(account, access.invitation.id if access.invitation else None)
    except IntegrityError:
        credentials.errors["email"] = messages.ALREADY_THERE
        return registration_page(credentials, 422)
    except invitations.InvitationOver:
        return registration_page(Credentials("", ""), 403)
    begin_session(account)
    return redirect(next_page(), 303)


def add_account(account: Account, invitation_id: uuid.UUID | None) -> None:
    """Add the account and use up the invitation.

    Raises IntegrityError if the address is taken, and InvitationOver.
    """
    with transaction() as database:
        database.add(account)
        database.flush()
        if invitation_id is not None:
            invitations.use(database, invitation_id)
    log.info("account.registered", account=account.id.hex, invited=invitation_id is not None)


def owe_link(address: str, invitation: Invitation | None) -> None:
    """Enqueue a mail to this address, with the same work whether or not it has an account."""
    may_send = may_be_mailed()
    with transaction() as database:
        known = account_with(database, address)
        if not may_send:
            outbox.enqueue_to_nobody(database, queue=services().settings.queue_name, what="registration.confirm")
            return
        facts = {"address": address, "invitation": "" if invitation is None else invitation.id.hex}
        enqueue_mail(
            database,
            address,
            "registration.confirm" if known is None else "registration.known",
            facts,
            account_id=None if known is None else known.id,
            useful_for_seconds=LINK_LIVES_SECONDS,
        )


@accounts.get("/register/<token>")
def choose_password(token: str) -> ResponseReturnValue:
    """Show the page of a mailed link."""
    proven = _proven(token)
    if proven is None:
        flash(str(messages.REGISTRATION_LINK_OVER))
        return redirect(url_for("accounts.sign_in"), 303)
    return password_page(token, Credentials(proven[0], ""), 200)


@accounts.post("/register/<token>")
@limiter.limit("30 per hour")
def create_proven_account(token: str) -> ResponseReturnValue:
    """Create an account with a proven e-mail address, and sign in."""
    proven = _proven(token)
    if proven is None:
        flash(str(messages.REGISTRATION_LINK_OVER))
        return redirect(url_for("accounts.sign_in"), 303)
    address, invitation_id = proven
    credentials = Credentials(address, request.form.get("password", ""))
    problem = password_problem(credentials.password, credentials.email)
    if problem:
        credentials.errors["password"] = problem
        return password_page(token, credentials, 422)
    setting = services().settings.registration
    if setting == "closed" or (setting == "invite" and invitation_id is None):
        return registration_page(Credentials("", ""), 403)
    account = Account(email=address, password_hash=hash_password(credentials.password), email_proven_at=func.now())
    try:
        add_account(account, invitation_id if setting == "invite" else None)
    except IntegrityError:
        flash(str(messages.ALREADY_THERE))
        return redirect(url_for("accounts.sign_in"), 303)
    except invitations.InvitationOver:
        return registration_page(Credentials("", ""), 403, over=True)
    begin_session(account)
    return redirect(url_for("jobs.home"), 303)


def _proven(token: str) -> tuple[str, uuid.UUID | None] | None:
    """Return the address and the invitation of a mailed link.

    Returns None if the link is expired or was not signed by this site.
    """
    facts = read_token(services().settings, PURPOSE, token, max_age_seconds=LINK_LIVES_SECONDS)
    if facts is None or len(facts) != 2:
        return None
    return facts[0], uuid.UUID(facts[1]) if facts[1] else None


def password_page(token: str, credentials: Credentials, status: int) -> ResponseReturnValue:
    """Show the form to choose a password, for an address that is proven."""
    action = url_for("accounts.create_proven_account", token=token)
    return render_template("accounts/choose_password.html", wanted=credentials, action=action, about="register"), status


def registration_page(
    credentials: Credentials, status: int, *, token: str | None = None, over: bool = False
) -> ResponseReturnValue:
    """Show the form, or why there is none. `over` means that the invitation is.

    With `token` None, the invitation is the one in the submitted form.
    """
    given = request.form.get("invitation", "") if token is None else token
    access = entrance(given)
    settings = services().settings
    page = render_template(
        "accounts/register.html",
        wanted=credentials,
        entrance=access,
        over=messages.INVITATION_OVER if over or (given and not access.is_open) else None,
        registration=settings.registration,
        by_mail=settings.can_mail,
        service=settings.sign_in_service,
        next=safe_next(asked_next()),
    )
    return page, status
