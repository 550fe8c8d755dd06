"""What a person wants to be told, and where: the page for it, and the wish for one job.

Mail goes to an address only after its owner has opened a link that was sent there: else anybody could register with
somebody else's address and have titles of their own making mailed to it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from flask import Blueprint, abort, flash, get_flashed_messages, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_limiter import RateLimitExceeded
from flask_login import current_user, login_required

from tasks.languages import language
from tasks.ledger import notices as ledger
from tasks.ledger import queries, wishes
from tasks.ledger.notice_models import Channel, Notice
from tasks.notices.links import read_token
from tasks.notices.targets import TargetRefused, read_target
from webapp import notice_words
from webapp.account_changes import prove_address
from webapp.extensions import limiter
from webapp.owing import owe, owe_mail
from webapp.parts import parts
from webapp.sessions import viewer
from webapp.transactions import transaction

notices = Blueprint("notices", __name__)

LINK_LIVES_SECONDS = 24 * 3600
TEST_IS_USEFUL_SECONDS = 600


def sender_key() -> str:
    """What sending on demand is counted under."""
    return f"notices:{current_user.get_id() if current_user.is_authenticated else 'nobody'}"


@notices.get("/account/notices")
@login_required  # type: ignore[untyped-decorator]
def show() -> ResponseReturnValue:
    """What one is told, and what became of the last notices."""
    return page()


def page(*, error: str | None = None, typed: str | None = None, secret: str | None = None) -> str:
    with transaction() as database:
        wish = wishes.wish_of(database, viewer().id)
        last = {channel: ledger.latest_of(database, viewer().id, channel, limit=1) for channel in Channel}
    url = wish.webhook_url if wish else None
    return render_template(
        "notices.html",
        can_mail=parts().settings.can_mail,
        confirmed=wish is not None and wish.email == viewer().email,
        email_on=wish is not None and wish.email_on and wish.email == viewer().email,
        url=url,
        typed=url if typed is None else typed,
        error=error,
        secret=secret,
        mail=last_word(last[Channel.EMAIL]),
        hook=last_word([one for one in last[Channel.WEBHOOK] if one.target == url]),
        done=get_flashed_messages(),
    )


def last_word(found: Sequence[Notice]) -> Notice | None:
    """The newest notice of a channel; None: none was ever owed there."""
    return found[0] if found else None


@notices.post("/account/notices/email")
@login_required  # type: ignore[untyped-decorator]
@limiter.limit("6 per hour", key_func=sender_key)
def email() -> ResponseReturnValue:
    """Switch mails on or off. An address that was never confirmed gets a link first."""
    if not parts().settings.can_mail:
        abort(404)
    account = viewer()
    wanted = "on" in request.form
    with transaction() as database:
        wish = wishes.wish_of(database, account.id)
        confirmed = wish is not None and wish.email == account.email
        if confirmed:
            wishes.wish_email(database, account.id, account.email, on=wanted, language=language())
        elif wanted:
            owe_mail(
                database,
                account.email,
                "email.confirm",
                {"account": account.id.hex, "address": account.email},
                account_id=account.id,
                useful_for_seconds=LINK_LIVES_SECONDS,
            )
    if wanted and not confirmed:
        flash(notice_words.confirm_first(account.email))
    else:
        flash(str(notice_words.EMAIL_ON if wanted else notice_words.EMAIL_OFF))
    return redirect(url_for("notices.show"), 303)


@notices.get("/account/notices/confirm/<token>")
@login_required  # type: ignore[untyped-decorator]
def ask_to_confirm(token: str) -> ResponseReturnValue:
    """The page a confirming link leads to. Only its button changes anything: programs open links in mails too."""
    if not _is_theirs(token):
        flash(str(notice_words.LINK_TOO_OLD))
        return redirect(url_for("notices.show"), 303)
    return render_template("notices_confirm.html", token=token)


@notices.post("/account/notices/confirm/<token>")
@login_required  # type: ignore[untyped-decorator]
def confirm(token: str) -> ResponseReturnValue:
    """The address is its owner's: mails are on."""
    if _is_theirs(token):
        with transaction() as database:
            wishes.wish_email(database, viewer().id, viewer().email, on=True, language=language())
            prove_address(database, viewer().id)
        flash(str(notice_words.EMAIL_ON))
    else:
        flash(str(notice_words.LINK_TOO_OLD))
    return redirect(url_for("notices.show"), 303)


def _is_theirs(token: str) -> bool:
    proven = read_token(parts().settings, "confirm mail address", token, max_age_seconds=LINK_LIVES_SECONDS)
    return proven == [viewer().id.hex, viewer().email]


@notices.post("/account/notices/webhook")
@login_required  # type: ignore[untyped-decorator]
@limiter.limit("30 per hour", key_func=sender_key)
def webhook() -> ResponseReturnValue:
    """Where to send what happens; the answer shows the secret, this once. The same address again: a new secret."""
    typed = request.form.get("url", "").strip()
    try:
        # The name is resolved by the worker at each delivery: here a slow name server would hold up the site.
        read_target(typed, loopback=parts().settings.webhook_loopback)
    except TargetRefused as refused:
        return page(error=notice_words.TARGETS[refused.code], typed=typed[:600]), 422
    with transaction() as database:
        secret = wishes.wish_webhook(database, viewer().id, typed)
    return page(secret=secret), 201


@notices.post("/account/notices/webhook/remove")
@login_required  # type: ignore[untyped-decorator]
def remove_webhook() -> ResponseReturnValue:
    """Send nothing there any more."""
    with transaction() as database:
        wishes.drop_webhook(database, viewer().id)
    flash(str(notice_words.WEBHOOK_REMOVED))
    return redirect(url_for("notices.show"), 303)


@notices.post("/account/notices/test")
@login_required  # type: ignore[untyped-decorator]
@limiter.limit("10 per 10 minutes", key_func=sender_key)
def test() -> ResponseReturnValue:
    """Send something harmless by the way the notices go."""
    channel = Channel.EMAIL if request.form.get("channel") == Channel.EMAIL else Channel.WEBHOOK
    with transaction() as database:
        wish = wishes.wish_of(database, viewer().id)
        target = None if wish is None else wish.email if channel is Channel.EMAIL else wish.webhook_url
        if target is None:
            abort(404)
        owe(
            database,
            channel,
            target,
            "test",
            {},
            account_id=viewer().id,
            useful_for_seconds=TEST_IS_USEFUL_SECONDS,
        )
    flash(str(notice_words.TEST_SENT))
    return redirect(url_for("notices.show"), 303)


@notices.post("/jobs/<uuid:job_id>/email")
@login_required  # type: ignore[untyped-decorator]
def for_job(job_id: uuid.UUID) -> ResponseReturnValue:
    """For this one job, mail or none, whatever is said for all."""
    with transaction() as database:
        if queries.job_of(database, job_id, viewer().id) is None:
            abort(404)
        wishes.wish_email_for_job(database, job_id, viewer().id, wanted=request.form.get("wanted") == "yes")
    return redirect(url_for("jobs.show", job_id=job_id), 303)


@notices.errorhandler(RateLimitExceeded)
def too_often(error: RateLimitExceeded) -> ResponseReturnValue:
    """Nothing was sent or changed."""
    return page(error=notice_words.TOO_MANY), 429
