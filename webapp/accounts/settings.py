"""Views of the account page: API tokens, password, sessions, language, export, and deleting the account."""

from __future__ import annotations

import uuid

import structlog
from flask import (
    Response,
    abort,
    current_app,
    flash,
    get_flashed_messages,
    redirect,
    render_template,
    request,
    stream_with_context,
    url_for,
)
from flask.typing import ResponseReturnValue
from flask_login import current_user, login_required
from sqlalchemy import delete, select

from tasks.i18n import LANGUAGES, _, language
from tasks.ledger.jobs import deletion
from webapp.accounts import export, forms, messages
from webapp.accounts.blueprint import accounts, form_on
from webapp.accounts.password_reset import owe_news_of_password
from webapp.auth import api_tokens, identities, known_devices, password_rules
from webapp.auth.accounts import change_language, change_password, end_sessions, revoke_tokens_with_password
from webapp.auth.password_rules import password_problem
from webapp.auth.passwords import hash_password, verify
from webapp.auth.sessions import begin_session, current_account, end_session, proved_recently
from webapp.database import transaction
from webapp.extensions import limiter
from webapp.http import locale
from webapp.http.downloads import attachment_header
from webapp.jobs import messages as job_messages
from webapp.limits import my_limits
from webapp.models import Account
from webapp.services import services

log = structlog.get_logger()


def reauthentication_key() -> str:
    """Return the key under which attempts at the password of this session's account are counted."""
    return f"own:{current_user.get_id() if current_user.is_authenticated else 'nobody'}"


reauthentication_limit = limiter.shared_limit(
    "10 per 10 minutes",
    scope="own password",
    key_func=reauthentication_key,
    deduct_when=lambda response: response.status_code == 403,
)
"""Limits every form that asks for the account's password again.

A stranger at an open browser could otherwise guess it.
"""


@accounts.get("/account")
@login_required  # type: ignore[untyped-decorator]
def show() -> ResponseReturnValue:
    """Show the account page: profile and API tokens."""
    return account_page()


@accounts.post("/account/tokens")
@login_required  # type: ignore[untyped-decorator]
def new_token() -> ResponseReturnValue:
    """Create a token and show it, this once."""
    name = forms.read_token_name(request.form)
    if not name:
        return account_page(errors={"name": messages.NAME_THE_TOKEN}), 422
    with transaction() as database:
        if len(api_tokens.tokens_of(database, current_account().id)) >= api_tokens.MAX_TOKENS:
            return account_page(errors={"name": messages.too_many_tokens(api_tokens.MAX_TOKENS)}), 422
        token = api_tokens.make_token(database, current_account().id, name)
    return account_page(token=token, name=name), 201


@accounts.post("/account/tokens/<uuid:token_id>/revoke")
@login_required  # type: ignore[untyped-decorator]
def revoke_token(token_id: uuid.UUID) -> ResponseReturnValue:
    """Revoke a token."""
    with transaction() as database:
        revoked = api_tokens.revoke(database, token_id, current_account().id)
    if not revoked:
        abort(404)
    return redirect(url_for("accounts.show"), 303)


@accounts.post("/account/password")
@login_required  # type: ignore[untyped-decorator]
@reauthentication_limit
@form_on("accounts.show")
def new_password() -> ResponseReturnValue:
    """Change the password. Ends all other sessions and starts a new one for this browser."""
    account = current_account()
    if not reauthenticated(account, request.form.get("password", "")):
        message = messages.NOT_YOUR_PASSWORD if account.has_password else messages.SHOW_WHO_YOU_ARE
        return account_page(errors={"current-password": message}), 403
    password = request.form.get("new", "")
    problem = password_problem(password, account.email)
    if problem:
        return account_page(errors={"new-password": problem}), 422
    new_hash = hash_password(password)
    with transaction() as database:
        stamp = change_password(database, account, new_hash)
        if stamp is not None:
            revoked = revoke_tokens_with_password(database, account, requested="revoke_tokens" in request.form)
            owe_news_of_password(database, account)
    if stamp is None:
        end_session()
        flash(str(messages.CHANGED_MEANWHILE))
        return redirect(url_for("accounts.sign_in"), 303)
    log.info("account.password_changed", account=account.id.hex, tokens_revoked=revoked)
    begin_session(account, stamp)
    flash(str(messages.PASSWORD_CHANGED))
    if revoked:
        flash(messages.tokens_revoked(revoked))
    return redirect(url_for("accounts.show"), 303)


@accounts.post("/account/sessions/end")
@login_required  # type: ignore[untyped-decorator]
def sign_out_everywhere() -> ResponseReturnValue:
    """End every session of the account, including this one."""
    account = current_account()
    with transaction() as database:
        stamp = end_sessions(database, account.id)
    log.info("account.sessions_ended", account=account.id.hex)
    end_session()
    if stamp is not None:
        known_devices.remember(account.id, stamp)  # the user was signed in here a moment ago
    flash(str(messages.SIGNED_OUT_EVERYWHERE))
    return redirect(url_for("accounts.sign_in"), 303)


@accounts.post("/account/language")
@login_required  # type: ignore[untyped-decorator]
def choose_language() -> ResponseReturnValue:
    """Set the language of pages and mails. Without a choice, both follow the browser."""
    chosen = request.form.get("language") or None
    if chosen is not None and chosen not in LANGUAGES:
        abort(422)
    locale.prefer(chosen)
    with transaction() as database:
        change_language(database, current_account().id, chosen, mails=language())
    flash(_("The language has been changed."))
    return redirect(url_for("accounts.show"), 303)


@accounts.post("/account/export")
@login_required  # type: ignore[untyped-decorator]
def take_everything() -> ResponseReturnValue:
    """Send everything that is kept for the account, as one file that is generated while it is sent."""
    account = current_account()
    slots = services().export_slots
    if not slots.acquire(blocking=False):
        return account_page(errors={"export": messages.EXPORTS_FULL}), 503
    with transaction() as database:
        lock = export.begin(database, account.id)
    if lock is None:
        slots.release()
        return account_page(errors={"export": messages.EXPORT_UNDER_WAY}), 409
    response = Response(
        stream_with_context(export.archive(account, lock, language_code=language())),
        mimetype="application/zip",
        headers={"Content-Disposition": attachment_header("waybill-export.zip")},
    )
    app = current_app._get_current_object()  # type: ignore[attr-defined]

    @response.call_on_close
    def release() -> None:  # also runs if the browser disconnects before the first byte
        slots.release()
        with app.app_context(), transaction() as database:
            export.end(database, lock)

    log.info("account.exported", account=account.id.hex)
    return response


@accounts.post("/account/delete")
@login_required  # type: ignore[untyped-decorator]
@reauthentication_limit
@form_on("accounts.show")
def leave() -> ResponseReturnValue:
    """Delete the account and everything that belongs to it, at once."""
    account = current_account()
    if "sure" not in request.form:
        return account_page(errors={"sure": job_messages.NOT_CONFIRMED}), 422
    if not reauthenticated(account, request.form.get("password", "")):
        message = job_messages.PASSWORD_WRONG if account.has_password else messages.SHOW_WHO_YOU_ARE
        return account_page(errors={"leaving-password": message}), 403
    with transaction() as database:
        # Lock the account first: a document that is being handed in is then either seen here or refused there.
        database.execute(select(Account.id).where(Account.id == account.id).with_for_update())
        deletion.delete_account_content(database, account.id)
        database.execute(delete(Account).where(Account.id == account.id))  # its tokens go with it by cascade
    log.info("account.deleted", account=account.id.hex)
    end_session()
    flash(str(job_messages.ACCOUNT_DELETED))
    return redirect(url_for("accounts.sign_in"), 303)


def reauthenticated(account: Account, password: str) -> bool:
    """Return True if the user has just proven to own the account, by its password or by a recent sign-in."""
    if account.has_password:
        return verify(password[: password_rules.MAX_LENGTH + 1], account.password_hash)
    return proved_recently()


def account_page(token: str | None = None, name: str | None = None, errors: dict[str, str] | None = None) -> str:
    """Render the account page, with each error beside its field."""
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
        proved=proved_recently(),
        done=get_flashed_messages(),
        limits=my_limits(),
    )
