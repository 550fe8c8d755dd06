"""Signing in and out, and a person's own account page. Other modules add what else accounts can do."""

from __future__ import annotations

import uuid

import structlog
from flask import abort, flash, get_flashed_messages, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user, login_required
from sqlalchemy import delete, select, update

from tasks.ledger.accounts import disabled
from tasks.ledger.jobs import deletion
from webapp.accounts import forms, messages
from webapp.accounts.blueprint import accounts, form_on
from webapp.accounts.forms import Credentials
from webapp.auth import api_tokens, identities, password_rules
from webapp.auth.accounts import account_with
from webapp.auth.attempt_limits import limit_sign_ins
from webapp.auth.passwords import hash_password, needs_rehash, verify
from webapp.auth.sessions import asked_next, begin_session, current_account, end_session, next_page, proved_lately
from webapp.database import transaction
from webapp.extensions import limiter
from webapp.http.security import safe_next
from webapp.jobs import messages as job_messages
from webapp.limits import my_limits
from webapp.models import Account
from webapp.services import services

log = structlog.get_logger()


def own_key() -> str:
    """What attempts at the password of this session's account are counted under."""
    return f"own:{current_user.get_id() if current_user.is_authenticated else 'nobody'}"


own_password_limit = limiter.shared_limit(
    "10 per 10 minutes", scope="own password", key_func=own_key, deduct_when=lambda answer: answer.status_code == 403
)
"""Wherever the password of the account is asked again, so that whoever found an open browser cannot guess it."""


@accounts.get("/login")
def sign_in() -> ResponseReturnValue:
    """The sign-in form."""
    if current_user.is_authenticated:
        return redirect(next_page())
    return sign_in_page(Credentials("", ""), 200)


@accounts.post("/login")
@limit_sign_ins
@form_on("accounts.sign_in", lambda given, status: sign_in_page(given, status))
def open_session() -> ResponseReturnValue:
    """Sign in. Every wrong pair gets the same answer after the same work."""
    given = forms.read_sign_in(request.form)
    with transaction() as database:
        account = account_with(database, given.email)
    password = given.password[: password_rules.LONGEST + 1]
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
    """Whether an operator has disabled the account. Asked only once somebody has shown that it is theirs."""
    with transaction() as database:
        since = disabled.disabled_since(database, account.id)
    if since is not None:
        log.info("account.disabled_sign_in", account=account.id.hex)
    return since is not None


def renew_hash(account: Account, new_hash: str) -> None:
    """Store the same password in today's way, unless it was changed meanwhile."""
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
        return account_page(errors={"name": messages.NAME_THE_TOKEN}), 422
    with transaction() as database:
        if len(api_tokens.tokens_of(database, current_account().id)) >= api_tokens.MOST_TOKENS:
            return account_page(errors={"name": messages.too_many_tokens(api_tokens.MOST_TOKENS)}), 422
        token = api_tokens.make_token(database, current_account().id, name)
    return account_page(token=token, name=name), 201


@accounts.post("/account/tokens/<uuid:token_id>/revoke")
@login_required  # type: ignore[untyped-decorator]
def revoke_token(token_id: uuid.UUID) -> ResponseReturnValue:
    """Take a token away."""
    with transaction() as database:
        revoked = api_tokens.revoke(database, token_id, current_account().id)
    if not revoked:
        abort(404)
    return redirect(url_for("accounts.show"), 303)


@accounts.post("/account/delete")
@login_required  # type: ignore[untyped-decorator]
@own_password_limit
@form_on("accounts.show")
def leave() -> ResponseReturnValue:
    """Delete the account and all that belongs to it, at once."""
    account = current_account()
    if "sure" not in request.form:
        return account_page(errors={"sure": job_messages.NOT_CONFIRMED}), 422
    if not is_theirs(account, request.form.get("password", "")):
        said = job_messages.PASSWORD_WRONG if account.has_password else messages.SHOW_WHO_YOU_ARE
        return account_page(errors={"leaving-password": said}), 403
    with transaction() as database:
        # Locked first, so that a document which is just being handed in is either seen here or refused there.
        database.execute(select(Account.id).where(Account.id == account.id).with_for_update())
        deletion.delete_account_content(database, account.id)
        database.execute(delete(Account).where(Account.id == account.id))  # its tokens go with it
    log.info("account.deleted", account=account.id.hex)
    end_session()
    flash(str(job_messages.ACCOUNT_DELETED))
    return redirect(url_for("accounts.sign_in"), 303)


def is_theirs(account: Account, password: str) -> bool:
    """Whether whoever sits here has just shown that the account is theirs: by its password, or by a fresh sign-in."""
    if account.has_password:
        return verify(password[: password_rules.LONGEST + 1], account.password_hash)
    return proved_lately()


def account_page(token: str | None = None, name: str | None = None, errors: dict[str, str] | None = None) -> str:
    """The page, with each error beside its field."""
    settings = services().settings
    with transaction() as database:
        owned = api_tokens.tokens_of(database, current_account().id)
        linked = (
            identities.is_linked(database, current_account().id, settings.oidc_issuer)
            if settings.oidc_issuer
            else False
        )
    return render_template(
        "accounts/settings.html",
        tokens=owned,
        token=token,
        token_name=name,
        errors=errors or {},
        settings=settings,
        service=settings.sign_in_service,
        linked=linked,
        proved=proved_lately(),
        done=get_flashed_messages(),
        limits=my_limits(),
    )
