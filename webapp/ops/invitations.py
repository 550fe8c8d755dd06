"""The operators' page for invitations. A link is shown once."""

from __future__ import annotations

import uuid

from flask import Blueprint, abort, flash, get_flashed_messages, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from webapp.accounts import messages
from webapp.auth import email_addresses, invitations
from webapp.auth.sessions import current_account
from webapp.database import transaction
from webapp.http import form_fields
from webapp.services import services, site_origin

ops_invitations = Blueprint("ops_invitations", __name__, url_prefix="/ops")


@ops_invitations.get("/invitations")
def show() -> ResponseReturnValue:
    """Show the invitations that can still be used, and the form for a new one."""
    return page(), 200


@ops_invitations.post("/invitations")
def invite() -> ResponseReturnValue:
    """Create an invitation and show its link, this once."""
    if services().settings.registration != "invite":
        abort(404)
    submitted = request.form.get("email", "").strip()
    email = email_addresses.normal_email(submitted) if submitted else None
    days = form_fields.number_in(request.form.get("days", "").strip(), invitations.MAX_DAYS)
    errors = {}
    if submitted and email is None:
        errors["email"] = messages.NO_ADDRESS
    if days is None:
        errors["days"] = messages.INVITED_WRONG_DAYS.format(most=invitations.MAX_DAYS)
    if days is None or errors:
        return page(errors=errors), 422
    with transaction() as database:
        token = invitations.invite(database, email=email, made_by=current_account().email, days=days)
    return page(link=site_origin() + url_for("accounts.invited", token=token), invited=email), 201


@ops_invitations.post("/invitations/<uuid:invitation_id>/revoke")
def revoke(invitation_id: uuid.UUID) -> ResponseReturnValue:
    """Revoke an invitation before it is used."""
    with transaction() as database:
        found = invitations.revoke(database, invitation_id)
    if not found:
        abort(404)
    flash(messages.INVITATION_WITHDRAWN)
    return redirect(url_for("ops_invitations.show"), 303)


def page(*, errors: dict[str, str] | None = None, link: str | None = None, invited: str | None = None) -> str:
    """Render the page. `link` is that of the new invitation, `invited` its e-mail address, None for anybody."""
    with transaction() as database:
        found = invitations.open_ones(database)
    return render_template(
        "ops/invitations.html",
        invitations=found,
        by_invitation=services().settings.registration == "invite",
        errors=errors or {},
        typed=request.form,
        days=invitations.DAYS,
        link=link,
        invited=invited,
        done=get_flashed_messages(),
    )
