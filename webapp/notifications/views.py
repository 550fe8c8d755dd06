"""The notification settings page, and the e-mail setting of a single job.

Mail goes to an address only after its owner has opened a link that was sent there. Otherwise anybody could register
with another person's address and have job titles of their own choice mailed to it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from flask import Blueprint, abort, flash, get_flashed_messages, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_limiter import RateLimitExceeded
from flask_login import current_user, login_required

from tasks.i18n import language
from tasks.ledger.models.notifications import Channel, Notice
from tasks.ledger.notifications import outbox as ledger
from tasks.ledger.notifications import preferences
from tasks.ledger.reports import job_views
from tasks.notifications.signed_links import read_token
from tasks.notifications.webhook_target import TargetRefused, read_target
from webapp.auth.accounts import prove_address
from webapp.auth.sessions import current_account
from webapp.database import transaction
from webapp.extensions import limiter
from webapp.notifications import messages
from webapp.notifications.outgoing import enqueue, enqueue_mail
from webapp.services import services

notices = Blueprint("notices", __name__)

LINK_LIVES_SECONDS = 24 * 3600
TEST_IS_USEFUL_SECONDS = 600


def sender_key() -> str:
    """Return the rate-limit key for messages that are sent on request."""
    return f"notices:{current_user.get_id() if current_user.is_authenticated else 'nobody'}"


@notices.get("/account/notices")
@login_required  # type: ignore[untyped-decorator]
def show() -> ResponseReturnValue:
    """Show the notification settings, and the outcome of the last notifications."""
    return page()


def page(*, error: str | None = None, typed: str | None = None, secret: str | None = None) -> str:
    with transaction() as database:
        preference = preferences.preference_of(database, current_account().id)
        last = {channel: ledger.latest_of(database, current_account().id, channel, limit=1) for channel in Channel}
    url = preference.webhook_url if preference else None
    return render_template(
        "notifications/settings.html",
        can_mail=services().settings.can_mail,
        confirmed=preference is not None and preference.email == current_account().email,
        email_on=preference is not None and preference.email_on and preference.email == current_account().email,
        url=url,
        gone=preference if preference and preference.webhook_gone_url and not url else None,
        typed=url if typed is None else typed,
        error=error,
        secret=secret,
        mail=last_word(last[Channel.EMAIL]),
        hook=last_word([notice for notice in last[Channel.WEBHOOK] if notice.target == url]),
        done=get_flashed_messages(),
    )


def last_word(found: Sequence[Notice]) -> Notice | None:
    """Return the newest notification of a channel; None if there was never one."""
    return found[0] if found else None


@notices.post("/account/notices/email")
@login_required  # type: ignore[untyped-decorator]
@limiter.limit("6 per hour", key_func=sender_key)
def email() -> ResponseReturnValue:
    """Turn mails on or off. An address that was never confirmed gets a link first."""
    if not services().settings.can_mail:
        abort(404)
    account = current_account()
    turn_on = "on" in request.form
    with transaction() as database:
        preference = preferences.preference_of(database, account.id)
        confirmed = preference is not None and preference.email == account.email
        if confirmed:
            preferences.set_email(database, account.id, account.email, on=turn_on, language=language())
        elif turn_on:
            enqueue_mail(
                database,
                account.email,
                "email.confirm",
                {"account": account.id.hex, "address": account.email},
                account_id=account.id,
                useful_for_seconds=LINK_LIVES_SECONDS,
            )
    if turn_on and not confirmed:
        flash(messages.confirm_first(account.email))
    else:
        flash(str(messages.EMAIL_ON if turn_on else messages.EMAIL_OFF))
    return redirect(url_for("notices.show"), 303)


@notices.get("/account/notices/confirm/<token>")
@login_required  # type: ignore[untyped-decorator]
def ask_to_confirm(token: str) -> ResponseReturnValue:
    """Show the page of a confirmation link. Only its button changes anything: programs, too, open links in mails."""
    if not _is_theirs(token):
        flash(str(messages.LINK_TOO_OLD))
        return redirect(url_for("notices.show"), 303)
    return render_template("notifications/confirm_email.html", token=token)


@notices.post("/account/notices/confirm/<token>")
@login_required  # type: ignore[untyped-decorator]
def confirm(token: str) -> ResponseReturnValue:
    """Mark the e-mail address as confirmed and turn mails on."""
    if _is_theirs(token):
        with transaction() as database:
            preferences.set_email(database, current_account().id, current_account().email, on=True, language=language())
            prove_address(database, current_account().id)
        flash(str(messages.EMAIL_ON))
    else:
        flash(str(messages.LINK_TOO_OLD))
    return redirect(url_for("notices.show"), 303)


def _is_theirs(token: str) -> bool:
    proven = read_token(services().settings, "confirm mail address", token, max_age_seconds=LINK_LIVES_SECONDS)
    return proven == [current_account().id.hex, current_account().email]


@notices.post("/account/notices/webhook")
@login_required  # type: ignore[untyped-decorator]
@limiter.limit("30 per hour", key_func=sender_key)
def webhook() -> ResponseReturnValue:
    """Set the URL of the webhook and show its secret, only once. The same URL again gets a new secret."""
    typed = request.form.get("url", "").strip()
    try:
        # The worker resolves the host name at each delivery. Here, a slow name server would hold up the site.
        read_target(typed, loopback=services().settings.webhook_loopback)
    except TargetRefused as refusal:
        return page(error=messages.TARGETS[refusal.code], typed=typed[:600]), 422
    with transaction() as database:
        secret = preferences.set_webhook(database, current_account().id, typed)
    return page(secret=secret), 201


@notices.post("/account/notices/webhook/remove")
@login_required  # type: ignore[untyped-decorator]
def remove_webhook() -> ResponseReturnValue:
    """Remove the webhook."""
    with transaction() as database:
        preferences.remove_webhook(database, current_account().id)
    flash(str(messages.WEBHOOK_REMOVED))
    return redirect(url_for("notices.show"), 303)


@notices.post("/account/notices/test")
@login_required  # type: ignore[untyped-decorator]
@limiter.limit("10 per 10 minutes", key_func=sender_key)
def test() -> ResponseReturnValue:
    """Send a test message over the channel of the notifications."""
    channel = Channel.EMAIL if request.form.get("channel") == Channel.EMAIL else Channel.WEBHOOK
    with transaction() as database:
        preference = preferences.preference_of(database, current_account().id)
        target = None
        if preference is not None:
            target = preference.email if channel is Channel.EMAIL else preference.webhook_url
        if target is None:
            abort(404)
        enqueue(
            database,
            channel,
            target,
            "test",
            {},
            account_id=current_account().id,
            useful_for_seconds=TEST_IS_USEFUL_SECONDS,
        )
    flash(str(messages.TEST_SENT))
    return redirect(url_for("notices.show"), 303)


@notices.post("/jobs/<uuid:job_id>/email")
@login_required  # type: ignore[untyped-decorator]
def for_job(job_id: uuid.UUID) -> ResponseReturnValue:
    """Turn the mail for this job on or off, whatever the setting for all jobs is."""
    with transaction() as database:
        if job_views.job_of(database, job_id, current_account().id) is None:
            abort(404)
        preferences.set_email_for_job(
            database, job_id, current_account().id, wanted=request.form.get("wanted") == "yes"
        )
    return redirect(url_for("jobs.show", job_id=job_id), 303)


@notices.errorhandler(RateLimitExceeded)
def too_often(error: RateLimitExceeded) -> ResponseReturnValue:
    """Return the page with a message after too many requests. Nothing was sent or changed."""
    return page(error=messages.TOO_MANY), 429
