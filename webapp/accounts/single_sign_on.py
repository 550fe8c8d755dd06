"""Signs users in with an OpenID Connect service that the operator has configured.

An identity is stored under the service's own name for the person. An e-mail address alone opens an account only if both
sides have proof of it: the service says that it verified the address, and somebody has proven here to own it. Otherwise
anybody who registered with a stranger's address would share an account with them. An address alone never opens an
operator's account.
"""

from __future__ import annotations

import structlog
from flask import abort, flash, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user, login_required
from sqlalchemy import func
from sqlalchemy.exc import IntegrityError

from webapp.accounts import messages
from webapp.accounts.blueprint import accounts, form_on
from webapp.accounts.forms import Credentials
from webapp.accounts.registration import entrance
from webapp.accounts.settings import account_page, reauthenticated, reauthentication_limit
from webapp.accounts.sign_in import is_locked_out, sign_in_page
from webapp.auth import email_addresses, identities, invitations
from webapp.auth.accounts import account_with, prove_address
from webapp.auth.oidc import NotSignedIn, Person, SignInService
from webapp.auth.sessions import asked_next, begin_session, current_account
from webapp.database import transaction
from webapp.extensions import limiter
from webapp.http.security import safe_next
from webapp.models import NO_PASSWORD, Account
from webapp.services import services, site_origin

log = structlog.get_logger()

STATE = "sign-in service"
"""Session key of the state of a sign-in at the service: the next page, the invitation, and the account to link."""


@accounts.get("/login/service")
@limiter.limit("60 per 10 minutes")
def sign_in_with_service() -> ResponseReturnValue:
    """Redirect to the service.

    It is a link and not a form, since a form's response may not lead to another site here.
    """
    service = _service()
    linking = (session.get(STATE) or {}).get("link") if "link" in request.args else None
    session[STATE] = {
        "next": safe_next(asked_next()),
        "invitation": request.args.get("invitation", "")[:100],
        "link": linking,
    }
    try:
        return service.begin(site_origin() + url_for("accounts.back_from_service"), again="again" in request.args)
    except NotSignedIn as refused:
        return _refused(refused.code)


@accounts.get("/login/service/done")
@limiter.limit("60 per 10 minutes")
def back_from_service() -> ResponseReturnValue:
    """Handle the return from the service: sign in, link, or show why not."""
    service = _service()
    state = session.pop(STATE, None) or {}
    try:
        person = service.finish()
        if state.get("link"):
            return _link(person, state["link"])
        account = _account_for(person, state.get("invitation", ""))
        if is_locked_out(account):
            raise NotSignedIn("disabled")
    except NotSignedIn as refused:
        return _refused(refused.code)
    log.info("account.signed_in_by_service", account=account.id.hex)
    begin_session(account)
    return redirect(safe_next(state.get("next")) or url_for("jobs.home"), 303)


def _account_for(person: Person, invitation: str) -> Account:
    """Return the account of this person, found or created. Raises NotSignedIn."""
    address = None if person.verified_email is None else email_addresses.normal_email(person.verified_email)
    with transaction() as database:
        linked = identities.account_of(database, person.issuer, person.subject)
        known = None if linked or address is None else account_with(database, address)
    if linked is not None:
        return linked
    if address is None:
        raise NotSignedIn("unverified")
    if known is None:
        return _new_account(person, address, invitation)
    if known.email_proven_at is None or known.is_operator:
        raise NotSignedIn("link_first")
    with transaction() as database:
        if not identities.link(database, person.issuer, person.subject, known.id):
            raise NotSignedIn("refused")  # it was linked to another account at the same moment
    log.info("account.linked", account=known.id.hex, by="address")
    return known


def _new_account(person: Person, address: str, token: str) -> Account:
    found = entrance(token)
    if not found.is_open or (found.invitation and found.invitation.email not in (None, address)):
        raise NotSignedIn("closed")
    account = Account(email=address, password_hash=NO_PASSWORD, email_proven_at=func.now())
    try:
        with transaction() as database:
            database.add(account)
            database.flush()
            if found.invitation is not None:
                invitations.use(database, found.invitation.id)
            if not identities.link(database, person.issuer, person.subject, account.id):
                raise NotSignedIn("refused")
    except (IntegrityError, invitations.InvitationOver):
        raise NotSignedIn("refused") from None
    log.info("account.registered", account=account.id.hex, by="service", invited=found.invitation is not None)
    return account


@accounts.post("/account/service")
@login_required  # type: ignore[untyped-decorator]
@reauthentication_limit
@form_on("accounts.show")
def link_service() -> ResponseReturnValue:
    """Check that the user owns the account, then show the page that leads to the service to link it."""
    _service()
    if not reauthenticated(current_account(), request.form.get("password", "")):
        return account_page(errors={"service-password": messages.NOT_YOUR_PASSWORD}), 403
    session[STATE] = {"link": current_account().id.hex}
    return render_template("accounts/link_sign_in_service.html", service=services().settings.sign_in_service), 200


def _link(person: Person, requested_by: str) -> ResponseReturnValue:
    if not current_user.is_authenticated or current_account().id.hex != requested_by:
        raise NotSignedIn("refused")
    account = current_account()
    label = services().settings.oidc_label
    with transaction() as database:
        linked = identities.link(database, person.issuer, person.subject, account.id)
        if linked and person.verified_email and email_addresses.normal_email(person.verified_email) == account.email:
            prove_address(database, account.id)
    if not linked:
        return account_page(errors={"service": messages.refused_by_service("others", label)}), 409
    log.info("account.linked", account=account.id.hex, by="its owner")
    flash(messages.service_linked(label))
    return redirect(url_for("accounts.show"), 303)


@accounts.post("/account/service/remove")
@login_required  # type: ignore[untyped-decorator]
def unlink_service() -> ResponseReturnValue:
    """Disconnect the sign-in service from the account."""
    _service()
    if not current_account().has_password:
        return account_page(errors={"service": messages.KEEP_A_WAY_IN}), 422
    settings = services().settings
    with transaction() as database:
        identities.unlink(database, current_account().id, settings.oidc_issuer or "")
    flash(messages.service_removed(settings.oidc_label))
    return redirect(url_for("accounts.show"), 303)


def _service() -> SignInService:
    service = services().sign_in_service
    if service is None:
        abort(404)
    return service


def _refused(code: str) -> ResponseReturnValue:
    message = messages.refused_by_service(code, services().settings.oidc_label)
    if current_user.is_authenticated:
        return account_page(errors={"service": message}), 403
    return sign_in_page(Credentials("", "", {"form": message}), 403)
