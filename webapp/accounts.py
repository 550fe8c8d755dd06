"""Registration, signing in and out, and a person's own account page."""

from __future__ import annotations

import hashlib
import time
import uuid
from datetime import UTC, datetime

import structlog
from flask import Blueprint, abort, flash, get_flashed_messages, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue
from flask_limiter import RateLimitExceeded
from flask_login import current_user, login_required, login_user, logout_user
from flask_wtf.csrf import CSRFError  # type: ignore[import-untyped]
from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError

from tasks.ledger import forgetting
from webapp import forms, tokens, wording
from webapp.errors import form_too_old, seconds_until_allowed
from webapp.extensions import limiter, login
from webapp.forms import Credentials
from webapp.models import Account
from webapp.parts import parts
from webapp.passwords import hash_password, is_right, needs_rehash
from webapp.security import safe_next
from webapp.transactions import transaction

log = structlog.get_logger()
accounts = Blueprint("accounts", __name__)

ALREADY_THERE = "There is an account with this address already. Sign in instead."
FORM_TOO_OLD = "The form was open for too long, or cookies are switched off. Send it again."
WRONG = "The address or the password is wrong."


def viewer() -> Account:
    """Whoever is signed in. Only where `login_required` stands."""
    account: Account = current_user._get_current_object()
    return account


@login.user_loader  # type: ignore[untyped-decorator]
def load_account(account_id: str) -> Account | None:
    """The account of a session; None if it is gone."""
    try:
        key = uuid.UUID(account_id)
    except ValueError:
        return None
    with transaction() as database:
        return database.get(Account, key)


def account_key() -> str:
    """What sign-in attempts on one account are counted under. A hash: Redis is told no addresses."""
    return "account:" + hashlib.sha256(forms.read_sign_in(request.form).email.encode()).hexdigest()[:32]


def leaving_key() -> str:
    """What attempts to delete the account of this session are counted under."""
    return f"leaving:{current_user.get_id() if current_user.is_authenticated else 'nobody'}"


@accounts.get("/register")
def register() -> ResponseReturnValue:
    """The form for a new account, or why there is none."""
    if current_user.is_authenticated:
        return redirect(url_for("jobs.home"))
    status = {"open": 200, "invite": 200, "closed": 404}[parts().settings.registration]
    return registration_page(Credentials("", ""), status)


@accounts.post("/register")
@limiter.limit("30 per hour")
def create_account() -> ResponseReturnValue:
    """A new account, signed in at once."""
    if parts().settings.registration != "open":
        return registration_page(Credentials("", ""), 403)
    wanted = forms.read_registration(request.form)
    if not wanted.errors:
        account = Account(email=wanted.email, password_hash=hash_password(wanted.password))
        try:
            with transaction() as database:
                database.add(account)
        except IntegrityError:
            wanted.errors["email"] = ALREADY_THERE
        else:
            log.info("account.registered", account=account.id.hex)
            begin_session(account)
            return redirect(next_page(), 303)
    return registration_page(wanted, 422)


def registration_page(wanted: Credentials, status: int) -> ResponseReturnValue:
    page = render_template(
        "register.html", wanted=wanted, registration=parts().settings.registration, next=safe_next(_asked_next())
    )
    return page, status


@accounts.get("/login")
def sign_in() -> ResponseReturnValue:
    """The sign-in form."""
    if current_user.is_authenticated:
        return redirect(next_page())
    return sign_in_page(Credentials("", ""), 200)


@accounts.post("/login")
@limiter.limit("30 per 10 minutes")
@limiter.limit("10 per 10 minutes", key_func=account_key, deduct_when=lambda response: response.status_code != 303)
def open_session() -> ResponseReturnValue:
    """Sign in. Every wrong pair gets the same answer after the same work."""
    given = forms.read_sign_in(request.form)
    with transaction() as database:
        account = database.execute(select(Account).where(Account.email == given.email)).scalar_one_or_none()
    password = given.password[: forms.LONGEST_PASSWORD + 1]
    if not is_right(password, account.password_hash if account else None) or account is None:
        given.errors["password"] = WRONG
        return sign_in_page(given, 401)
    if needs_rehash(account.password_hash):
        with transaction() as database:
            database.merge(account).password_hash = hash_password(password)
    begin_session(account)
    return redirect(next_page(), 303)


def sign_in_page(given: Credentials, status: int) -> ResponseReturnValue:
    page = render_template(
        "login.html",
        given=given,
        registration=parts().settings.registration,
        next=safe_next(_asked_next()),
        done=get_flashed_messages(),
    )
    return page, status


@accounts.errorhandler(CSRFError)
def keep_what_was_typed(error: CSRFError) -> ResponseReturnValue:
    """A form that is too old comes back as a new one."""
    typed = Credentials(request.form.get("email", "")[: forms.LONGEST_EMAIL], "", {"form": FORM_TOO_OLD})
    if request.endpoint == "accounts.open_session":
        return sign_in_page(typed, 400)
    if request.endpoint == "accounts.create_account":
        return registration_page(typed, 400)
    return form_too_old(error)


@accounts.errorhandler(RateLimitExceeded)
def too_many_attempts(error: RateLimitExceeded) -> ResponseReturnValue:
    """When the form may be used again."""
    wait = seconds_until_allowed()
    again = datetime.fromtimestamp(time.time() + wait, UTC)
    back = {"accounts.create_account": "accounts.register", "accounts.leave": "accounts.show"}
    form = url_for(back.get(request.endpoint or "", "accounts.sign_in"), next=safe_next(_asked_next()))
    page = render_template("too_many.html", again=again, wait=wait, form=form)
    return page, 429, {"Retry-After": str(wait)}


def begin_session(account: Account) -> None:
    """A session of its own for this person: nothing that was in the browser's before lives on in it."""
    session.clear()
    session.permanent = True
    login_user(account)


def next_page() -> str:
    return safe_next(_asked_next()) or url_for("jobs.home")


def _asked_next() -> str | None:
    return request.form.get("next") or request.args.get("next")


@accounts.post("/logout")
def sign_out() -> ResponseReturnValue:
    """End the session in this browser."""
    logout_user()
    session.clear()
    return redirect(url_for("accounts.sign_in"), 303)


@accounts.get("/account")
@login_required  # type: ignore[untyped-decorator]
def show() -> ResponseReturnValue:
    """Who one is here, and one's API tokens."""
    return account_page()


@accounts.post("/account/tokens")
@login_required  # type: ignore[untyped-decorator]
def new_token() -> ResponseReturnValue:
    """Make a token and show it, this once."""
    name = forms.read_token_name(request.form)
    if not name:
        return account_page(error="Give the token a name, so that you know later what uses it."), 422
    with transaction() as database:
        if len(tokens.tokens_of(database, viewer().id)) >= tokens.MOST_TOKENS:
            full = f"There are {tokens.MOST_TOKENS} tokens already. Revoke one first."
            return account_page(error=full), 422
        token = tokens.make_token(database, viewer().id, name)
    return account_page(token=token, name=name), 201


@accounts.post("/account/tokens/<uuid:token_id>/revoke")
@login_required  # type: ignore[untyped-decorator]
def revoke_token(token_id: uuid.UUID) -> ResponseReturnValue:
    """Take a token away."""
    with transaction() as database:
        revoked = tokens.revoke(database, token_id, viewer().id)
    if not revoked:
        abort(404)
    return redirect(url_for("accounts.show"), 303)


@accounts.post("/account/delete")
@login_required  # type: ignore[untyped-decorator]
@limiter.limit("10 per 10 minutes", key_func=leaving_key, deduct_when=lambda response: response.status_code == 403)
def leave() -> ResponseReturnValue:
    """Delete the account and all that belongs to it, at once."""
    account = viewer()
    if "sure" not in request.form:
        return account_page(leaving={"sure": wording.NOT_CONFIRMED}), 422
    if not is_right(request.form.get("password", "")[: forms.LONGEST_PASSWORD + 1], account.password_hash):
        return account_page(leaving={"leaving-password": wording.PASSWORD_WRONG}), 403
    with transaction() as database:
        # Locked first, so that a document which is just being handed in is either seen here or refused there.
        database.execute(select(Account.id).where(Account.id == account.id).with_for_update())
        forgetting.forget_account(database, account.id)
        database.execute(delete(Account).where(Account.id == account.id))  # its tokens go with it
    log.info("account.deleted", account=account.id.hex)
    logout_user()
    session.clear()
    flash(wording.ACCOUNT_DELETED)
    return redirect(url_for("accounts.sign_in"), 303)


def account_page(
    token: str | None = None,
    name: str | None = None,
    error: str | None = None,
    leaving: dict[str, str] | None = None,
) -> str:
    with transaction() as database:
        owned = tokens.tokens_of(database, viewer().id)
    return render_template(
        "account.html",
        tokens=owned,
        token=token,
        token_name=name,
        error=error,
        leaving=leaving or {},
        settings=parts().settings,
    )
