"""The page on which users list, make and revoke their upload links. The API offers the same to programs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from urllib.parse import urlsplit

from flask import Blueprint, abort, flash, get_flashed_messages, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_login import login_required

from webapp.auth.sessions import current_account
from webapp.database import transaction
from webapp.http import form_fields, pagination
from webapp.http.rejection import NotAccepted
from webapp.jobs.parsing import DEFAULT_WORKFLOW, FormOptions, offered, parse_workflow
from webapp.services import services, site_origin
from webapp.text.strings import cut, one_line
from webapp.upload_links import links
from webapp.upload_links import owner_messages as words
from webapp.upload_links.links import Link, LinkTerms, TooManyLinks

my_upload_links = Blueprint("my_upload_links", __name__)

PAGE = 20
LIFE, USES = "month", "10"
"""The defaults of the form: long enough for a page that stays as it is, and few enough documents to pay for."""
MAX_SHOWN_LENGTH = 80


@my_upload_links.get("/account/upload-links")
@login_required  # type: ignore[untyped-decorator]
def show() -> ResponseReturnValue:
    """List the user's upload links, newest first, with the form to make another."""
    return page()


@my_upload_links.post("/account/upload-links")
@login_required  # type: ignore[untyped-decorator]
def make() -> ResponseReturnValue:
    """Make a link and show the HTML to put on a page. It is shown only once."""
    errors: dict[str, str] = {}
    terms = read_terms(request.form, errors)
    if terms is None:
        return page(errors=errors), 422
    try:
        with transaction() as session:
            link_id = links.make_link(
                session, current_account().id, terms, kept_days=services().settings.retention_days
            )
            made = links.link_of(session, link_id, current_account().id)
    except TooManyLinks:
        return page(errors={"form": words.too_many_links()}), 409
    return page(made=made), 201


@my_upload_links.post("/account/upload-links/<uuid:link_id>/revoke")
@login_required  # type: ignore[untyped-decorator]
def revoke(link_id: uuid.UUID) -> ResponseReturnValue:
    """Revoke a link for good."""
    with transaction() as session:
        found = links.link_of(session, link_id, current_account().id)
        links.revoke(session, link_id, current_account().id)
    if found is None:
        abort(404)
    flash(str(words.REVOKED))
    return redirect(url_for("my_upload_links.show"), 303)


def page(*, errors: Mapping[str, str] | None = None, made: Link | None = None) -> str:
    """Render the page with each error beside its field; `made` is the link that was just made."""
    before = pagination.read(request.args.get("before", ""))
    with transaction() as session:
        found = links.links_of(session, current_account().id, limit=PAGE + 1, before=before)
    older = (found[PAGE - 1].row.created_at, found[PAGE - 1].row.id) if len(found) > PAGE else None
    typed = request.form if errors else {}
    names = [workflow.name for workflow in offered()]
    return render_template(
        "upload_links/manage.html",
        links=found[:PAGE],
        older=pagination.after(older) if older else None,
        paged=before is not None,
        made=made,
        errors=errors or {},
        typed=typed,
        workflows=offered(),
        chosen=typed.get("workflow") if typed.get("workflow") in names else names[0],
        states=words.STATES,
        lives=words.LIVES,
        life=typed.get("life", LIFE),
        uses=typed.get("max_uses", USES),
        site=site_origin(),
        done=get_flashed_messages(),
    )


def read_terms(form: Mapping[str, str], errors: dict[str, str]) -> LinkTerms | None:
    """Return the terms in the form. Returns None if a field is wrong, and adds the messages to `errors` by field."""
    name = cut(one_line(form.get("name", "")), links.MAX_NAME_LENGTH)
    uses = form_fields.number_in(form.get("max_uses", "").strip(), links.MAX_USES)
    life = words.LIVES.get(form.get("life", ""))
    return_url = form.get("return_url", "").strip()
    origins = _origins(form.get("frame_origins", ""), errors)
    if not name:
        errors["name"] = words.NAME_MISSING
    if uses is None:
        errors["max_uses"] = words.uses_wrong()
    if life is None:
        errors["life"] = words.LIFE_WRONG
    if return_url and not links.is_address(return_url):
        errors["return_url"] = words.RETURN_WRONG
    try:
        workflow, options = parse_workflow(form.get("workflow", DEFAULT_WORKFLOW), FormOptions(form))
    except NotAccepted as refusal:
        errors[refusal.field] = refusal.message
        return None
    if errors or uses is None or life is None:
        return None
    return LinkTerms(
        name=name,
        workflow=workflow.name,
        options=options,
        expires_in_seconds=life[0],
        max_uses=uses,
        frame_origins=origins,
        return_url=return_url or None,
        show_result="show_result" in form,
    )


def _origins(typed: str, errors: dict[str, str]) -> list[str]:
    """Return the sites that were typed, separated by white space. Adds a message to `errors` if any is wrong."""
    found = [(site, _origin_in(site)) for site in typed.split()]
    wrong = next((site for site, origin in found if origin is None), None)
    if wrong is not None:
        errors["frame_origins"] = words.site_wrong(cut(one_line(wrong), MAX_SHOWN_LENGTH))
    origins = list(dict.fromkeys(origin for _, origin in found if origin is not None))
    if len(origins) > links.MAX_ORIGINS:
        errors["frame_origins"] = words.too_many_sites()
    return origins


def _origin_in(typed: str) -> str | None:
    """Return the origin of a site name or of the URL of any of its pages; None if it is not a usable origin."""
    try:
        url = urlsplit(typed if "://" in typed else f"https://{typed}")
    except ValueError:
        return None
    origin = f"{url.scheme}://{url.netloc}".lower()
    return origin if links.is_origin(origin) else None
