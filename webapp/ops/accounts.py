"""The operators' pages about accounts: usage, limits, and access. They show no document."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

from flask import Blueprint, abort, flash, get_flashed_messages, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from tasks.cli.messages import DECIDED, LONGEST_NOTE
from tasks.ledger.accounts import disabled as accounts_disabled
from tasks.ledger.accounts import limits
from tasks.ledger.accounts.limits import Limit
from tasks.ledger.history import audit_log
from tasks.ledger.replays import operator_actions
from webapp.auth import account_access, api_tokens
from webapp.auth.account_access import Deciding, NotDecided
from webapp.auth.email_addresses import MAX_EMAIL_LENGTH
from webapp.auth.sessions import current_account
from webapp.database import transaction
from webapp.limits import HIGHEST_VALUES, NAMES, limit_in
from webapp.models import Account
from webapp.ops.work import note_of
from webapp.services import services

ops_accounts = Blueprint("ops_accounts", __name__, url_prefix="/ops")

PAGE = 50
DECISIONS_SHOWN = 20
LAST_LETTER = "\U0010ffff"
SAY_WHY = "Say why. The reason is kept with the decision."
CHANGED = "The limits have been changed. They hold from the next document on."
UNCHANGED = "These were the limits already. Nothing was changed."


@ops_accounts.get("/accounts")
def accounts() -> ResponseReturnValue:
    """List the accounts whose e-mail address begins with the submitted text, in the order of the addresses."""
    begins, after = _query_value("q"), _query_value("after")
    with transaction() as database:
        found = accounts_of(database, begins, after, limit=PAGE + 1)
        disabled = accounts_disabled.disabled_among(database, [text.id for text in found[:PAGE]])
        use = limits.use_of(database, [text.id for text in found[:PAGE]], services().settings.limits)
    return render_template(
        "ops/accounts.html",
        accounts=found[:PAGE],
        use=use,
        disabled=disabled,
        begins=begins,
        after=found[PAGE - 1].email if len(found) > PAGE else None,
        paged=bool(after),
    )


def _query_value(name: str) -> str:
    return request.args.get(name, "").replace("\0", "").strip().lower()[:MAX_EMAIL_LENGTH]


def accounts_of(session: Session, begins: str, after: str, *, limit: int) -> Sequence[Account]:
    """Return the accounts whose e-mail address begins with `begins` and comes after `after`.

    Ordered by code points, whatever the language of the database: that is the order of the index that finds prefixes.
    """
    statement = select(Account).where(Account.email.bool_op("~>~")(after))
    if begins:
        beginning = Account.email.bool_op("~>=~")(begins), Account.email.bool_op("~<~")(begins + LAST_LETTER)
        statement = statement.where(*beginning)
    return session.execute(statement.order_by(text("accounts.email USING ~<~")).limit(limit)).scalars().all()


@ops_accounts.get("/accounts/<uuid:account_id>")
def account(account_id: uuid.UUID) -> ResponseReturnValue:
    """Show how far one account has used up its limits, and the form that changes them."""
    return account_page(account_id)


@ops_accounts.post("/accounts/<uuid:account_id>/limits")
def set_limits(account_id: uuid.UUID) -> ResponseReturnValue:
    """Change the limits of an account, for a stated reason. Empty: as the site has it; 0: no limit."""
    submitted = {limit: request.form.get(str(limit), "").strip() for limit in Limit}
    requested = {limit: limit_in(text, limit) for limit, text in submitted.items()}
    errors = {
        str(limit): f"Write a number up to {HIGHEST_VALUES[limit]:,}, or leave it empty."
        for limit, text in submitted.items()
        if text and requested[limit] is None
    }
    note = note_of(request.form)
    if not note:
        errors["note"] = SAY_WHY
    if errors:
        return account_page(account_id, errors), 422
    with transaction() as database:
        # Locked to the end of the transaction, so that the account is not deleted meanwhile.
        lock = select(Account.id).where(Account.id == account_id).with_for_update(read=True)
        if database.execute(lock).one_or_none() is None:
            abort(404)
        queue = services().settings.queue_name
        changed = operator_actions.set_limits(
            database, queue, account_id, requested, by=current_account().email, note=note
        )
    flash(CHANGED if changed else UNCHANGED)
    return redirect(url_for("ops_accounts.account", account_id=account_id), 303)


DECISIONS: Mapping[str, tuple[Callable[[Session, Account, Deciding], object], str, str]] = {
    "disable": (
        account_access.disable,
        "The account is disabled. It is signed out everywhere, its API tokens and upload links open nothing, and no "
        "job of it begins.",
        "The account was disabled already. Nothing was changed.",
    ),
    "enable": (
        account_access.enable,
        "The account is enabled. Its waiting jobs go on.",
        "The account was not disabled. Nothing was changed.",
    ),
    "revoke-tokens": (
        account_access.revoke_tokens,
        "All its API tokens have been revoked.",
        "It had no API tokens. Nothing was changed.",
    ),
    "demote": (
        account_access.demote,
        "The account is no operator’s any more.",
        "It was no operator’s account. Nothing was changed.",
    ),
}
"""The decisions by the last part of the URL: the function, and the messages for a change and for no change."""


@ops_accounts.post("/accounts/<uuid:account_id>/<what>")
def decide(account_id: uuid.UUID, what: str) -> ResponseReturnValue:
    """Decide about an account, for a stated reason."""
    if what not in DECISIONS:
        abort(404)
    reason = note_of(request.form)
    if not reason:
        return account_page(account_id, {"reason": SAY_WHY}), 422
    deciding = Deciding(
        services().settings.queue_name, by=current_account().email, reason=reason, account_id=current_account().id
    )
    act, done, nothing_to_do = DECISIONS[what]
    try:
        with transaction() as database:
            found = database.get(Account, account_id)
            if found is None:
                abort(404)
            changed = act(database, found, deciding)
    except NotDecided as refused:
        return account_page(account_id, {"access": str(refused)}), 409
    flash(done if changed else nothing_to_do)
    return redirect(url_for("ops_accounts.account", account_id=account_id), 303)


def account_page(account_id: uuid.UUID, errors: Mapping[str, str] | None = None) -> str:
    """Render the page of an account, with each error beside its field. Aborts with 404 if it does not exist."""
    site = services().settings.limits
    with transaction() as database:
        found = database.get(Account, account_id)
        if found is None:
            abort(404)
        own = limits.own_limits(database, account_id)
        standing = limits.usage_of(database, account_id, site)
        disabled_at = accounts_disabled.disabled_since(database, account_id)
        owned = len(api_tokens.tokens_of(database, account_id))
        decided = audit_log.about_account(database, account_id, limit=DECISIONS_SHOWN)
    # the errors belong to that form, not to the one of the limits
    deciding = not {"access", "reason"}.isdisjoint(errors or {})
    set_now = {str(limit): getattr(own, limit) for limit in Limit}
    return render_template(
        "ops/account.html",
        account=found,
        disabled_at=disabled_at,
        tokens=owned,
        names=NAMES,
        standing=standing,
        own=own,
        site=site,
        typed=request.form
        if errors and not deciding
        else {name: value for name, value in set_now.items() if value is not None},
        reason=request.form.get("note", "") if deciding else "",
        errors=errors or {},
        decisions=decided,
        decided=DECIDED,
        longest_note=LONGEST_NOTE,
        done=get_flashed_messages(),
    )
