"""What a person does to their own account besides leaving it: password, sessions, language, a copy of everything."""

from __future__ import annotations

import structlog
from flask import Response, abort, current_app, flash, redirect, request, stream_with_context, url_for
from flask.typing import ResponseReturnValue
from flask_login import login_required

from tasks.i18n import LANGUAGES, _, language
from webapp.accounts import export, messages
from webapp.accounts.blueprint import accounts, form_on
from webapp.accounts.password_reset import owe_news_of_password
from webapp.accounts.sign_in import account_page, is_theirs, own_password_limit
from webapp.auth import known_devices
from webapp.auth.accounts import change_language, change_password, end_sessions, revoke_tokens_with_password
from webapp.auth.password_rules import password_fault
from webapp.auth.passwords import hash_password
from webapp.auth.sessions import begin_session, current_account, end_session
from webapp.database import transaction
from webapp.http import locale
from webapp.http.downloads import attachment_header
from webapp.services import services

log = structlog.get_logger()


@accounts.post("/account/password")
@login_required  # type: ignore[untyped-decorator]
@own_password_limit
@form_on("accounts.show")
def new_password() -> ResponseReturnValue:
    """Another password. All other sessions end; this one begins anew."""
    account = current_account()
    if not is_theirs(account, request.form.get("password", "")):
        said = messages.NOT_YOUR_PASSWORD if account.has_password else messages.SHOW_WHO_YOU_ARE
        return account_page(errors={"current-password": said}), 403
    password = request.form.get("new", "")
    fault = password_fault(password, account.email)
    if fault:
        return account_page(errors={"new-password": fault}), 422
    new_hash = hash_password(password)
    with transaction() as database:
        stamp = change_password(database, account, new_hash)
        if stamp is not None:
            revoked = revoke_tokens_with_password(database, account, wanted="revoke_tokens" in request.form)
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
    """End every session of the account, this one too."""
    account = current_account()
    with transaction() as database:
        stamp = end_sessions(database, account.id)
    log.info("account.sessions_ended", account=account.id.hex)
    end_session()
    if stamp is not None:
        known_devices.remember(account.id, stamp)  # they were signed in here just now
    flash(str(messages.SIGNED_OUT_EVERYWHERE))
    return redirect(url_for("accounts.sign_in"), 303)


@accounts.post("/account/language")
@login_required  # type: ignore[untyped-decorator]
def choose_language() -> ResponseReturnValue:
    """What pages and mails are written in from now on. Nothing chosen: what the browser asks for, mails too."""
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
    """Everything that is kept for the account, as one file that is made while it is sent."""
    account = current_account()
    places = services().exports
    if not places.acquire(blocking=False):
        return account_page(errors={"export": messages.EXPORTS_FULL}), 503
    with transaction() as database:
        turn = export.begin(database, account.id)
    if turn is None:
        places.release()
        return account_page(errors={"export": messages.EXPORT_UNDER_WAY}), 409
    answer = Response(
        stream_with_context(export.archive(account, turn, spoken=language())),
        mimetype="application/zip",
        headers={"Content-Disposition": attachment_header("waybill-export.zip")},
    )
    app = current_app._get_current_object()  # type: ignore[attr-defined]

    @answer.call_on_close
    def ended() -> None:  # also when the browser went away before the first byte
        places.release()
        with app.app_context(), transaction() as database:
            export.end(database, turn)

    log.info("account.exported", account=account.id.hex)
    return answer
