"""The public pages of an upload link: its form, and the status of a submitted document.

These pages are made to be shown in a frame of another site, where browsers withhold cookies. So no session is read or
started here: the URL grants access, and the form carries a token that proves that this site made it. A user who is
signed in to Waybill in the same browser is treated as signed out here. Only the origins that the link names may frame
these pages.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from flask import Blueprint, Response, abort, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_limiter import RateLimitExceeded
from sqlalchemy.exc import IntegrityError
from werkzeug.exceptions import RequestEntityTooLarge

from tasks.workflows import WORKFLOWS
from webapp.database import transaction
from webapp.extensions import client_address, limiter
from webapp.http import form_fields, request_body
from webapp.http.downloads import attachment
from webapp.http.errors import seconds_until_allowed
from webapp.http.rejection import NotAccepted
from webapp.http.security import content_security_policy
from webapp.jobs import messages
from webapp.jobs.downloads import result_name
from webapp.jobs.parsing import StoredOptions, fields_of_form, parse_submission
from webapp.jobs.polling import announcement_key
from webapp.jobs.status import StatusPage, build_status_page
from webapp.jobs.submission import submit
from webapp.limits import OverLimit
from webapp.services import services
from webapp.upload_links import links, public_messages, signed_urls
from webapp.upload_links.links import Link, LinkClosed, LinkState

embed = Blueprint("embed", __name__)


@embed.url_value_preprocessor
def forget_who_is_signed_in(endpoint: str | None, values: dict[str, object] | None) -> None:
    g.nobody = True


@embed.after_request
def let_be_framed(response: Response) -> Response:
    """Allow framing by the origins of the link, if there is a link."""
    response.headers["Content-Security-Policy"] = content_security_policy(g.get("frame_origins", ()))
    response.headers["X-Robots-Tag"] = "noindex"
    return response


def sender_key() -> str:
    """Return the rate-limit key: the client's address and a hash of the link's token.

    The token is hashed so that Redis stores nothing that grants access.
    """
    token = str((request.view_args or {}).get("token"))
    return f"upload:{hashlib.sha256(token.encode()).hexdigest()[:32]}:{client_address()}"


@embed.get("/embed/<token>")
def form(token: str) -> ResponseReturnValue:
    """Show the form, or the reason why the link is closed."""
    link = _link_or_404(token)
    return form_page(link) if link.state is LinkState.OPEN else closed_page(link)


@embed.post("/embed/<token>")
@limiter.limit("30 per 10 minutes", key_func=sender_key)
def hand_in(token: str) -> ResponseReturnValue:
    """Accept a document for the owner of the link. The same form sent again leads to the same job."""
    link = _link_or_404(token)
    if link.state is LinkState.REVOKED:
        return closed_page(link)
    form_key = signed_urls.read_form(request.form.get("form_token", ""), link.row.id)
    try:
        if form_key is None:
            raise NotAccepted("form_too_old", public_messages.FORM_TOO_OLD, field="form", status=400)
        job_id = _submit(link, form_key)
    except OverLimit as refusal:
        return *form_page(link, {"form": refusal.message_for_sender}, refusal.status), refusal.headers
    except NotAccepted as refusal:
        if refusal.code == "options_wrong":  # the link is older than the options
            return form_page(link, {"form": public_messages.NO_LONGER_OFFERED}, 409)
        return form_page(link, {refusal.field: refusal.shown_message}, refusal.status)
    except LinkClosed:
        return closed_page(_link_or_404(token))
    except IntegrityError:  # the account was deleted between two of our statements
        abort(404)
    receipt = links.receipt_of(link.row.id, job_id)
    return redirect(url_for("embed.show", receipt=receipt, by=link.token), 303)


def _submit(link: Link, form_key: uuid.UUID) -> uuid.UUID:
    """Submit the document of the form, with the workflow and the options of the link, and return its job.

    It is always a new job, so that a sender never learns that somebody else submitted the same document.
    """
    fields = replace(
        fields_of_form(request.form, request.files),
        workflow=link.row.workflow,
        options=StoredOptions(link.row.options),
    )
    submission = parse_submission(fields, services().settings)
    assert submission.document is not None, "only one file is allowed"
    return submit(
        link.row.account_id,
        submission.document,
        submission.workflow,
        submission.options,
        fresh_run_key=f"upload-link-{link.row.id.hex}-{form_key.hex}",
        on_created=lambda session, job_id: links.take_use(session, link.row.id, job_id),
    ).job_id


@embed.errorhandler(RequestEntityTooLarge)
def too_large(error: RequestEntityTooLarge) -> ResponseReturnValue:
    """Return the form with its values, but without the file, because the request was too large."""
    sentence = messages.file_too_large(services().settings.max_upload_bytes)
    return form_page(_link_or_404(_token()), {"file": sentence}, 413)


@embed.errorhandler(RateLimitExceeded)
def too_often(error: RateLimitExceeded) -> ResponseReturnValue:
    """Return the form with a message after too many requests from one client address."""
    sentence = public_messages.too_often(seconds_until_allowed())
    response = Response(*form_page(_link_or_404(_token()), {"form": sentence}, 429))
    response.headers["Retry-After"] = str(seconds_until_allowed())
    return response


def _token() -> str:
    return str((request.view_args or {}).get("token"))


@embed.get("/handed-in/<receipt>")
def show(receipt: str) -> ResponseReturnValue:
    """Show the status of a document to its sender."""
    link, page = _page(receipt)
    if page is None:
        return gone_page(link)
    return render_template("upload_links/public/show.html", **_shown(link, page, receipt))


@embed.get("/handed-in/<receipt>/status")
def status(receipt: str) -> ResponseReturnValue:
    """Return the fragment that the page polls for; 204 while nothing has changed."""
    link, page = _page(receipt)
    if page is None:
        return "", 404, {"HX-Redirect": url_for("embed.show", receipt=receipt)}
    known = (form_fields.number_asked("rev"), request.args.get("t", ""))
    if page.poll is not None and known == (page.poll.revision, page.poll.tier):
        return Response(status=204)
    announce = request.args.get("said") != announcement_key(page.job)
    return render_template(
        "upload_links/public/_status.html", **_shown(link, page, receipt), fragment=True, announce=announce
    )


@embed.get("/handed-in/<receipt>/result.md")
def result(receipt: str) -> ResponseReturnValue:
    """Return the result as Markdown if the link allows it; 404 until there is one."""
    link, page = _page(receipt)
    if page is None or page.result is None or not link.row.show_result:
        abort(404)
    return attachment(page.result.text.encode(), f"{result_name(page.job)}.md", "text/markdown; charset=utf-8")


def _link_or_404(token: str) -> Link:
    with transaction() as session:
        link = links.link_at(session, token)
    if link is None:
        abort(404)
    g.frame_origins = link.row.frame_origins
    return link


def _page(receipt: str) -> tuple[Link, StatusPage | None]:
    """Return the link and the job of a receipt; no job once it is deleted, or if the link was revoked."""
    with transaction() as session:
        found = links.link_and_job_at(session, receipt)
        if found is None:
            abort(404)
        link, job_id = found
        page = None
        if job_id is not None and link.state is not LinkState.REVOKED:
            page = build_status_page(session, job_id, link.row.account_id, services().settings)
    g.frame_origins = link.row.frame_origins
    return link, page


def _shown(link: Link, page: StatusPage, receipt: str) -> dict[str, object]:
    # The URL of a document's page may be passed on, and must not let others submit documents. So the page shows the
    # link only if the link's token is in the URL too, as it is right after a document was submitted.
    by = link.token if request.args.get("by") == link.token else None
    return {
        "link": link,
        "page": page,
        "job": page.job,
        "receipt": receipt,
        "says": public_messages.said_to_sender(page, result_shown=link.row.show_result),
        "by": by,
        "may_send_more": by is not None and link.state is LinkState.OPEN,
        "back": _way_back(link),
    }


def form_page(link: Link, errors: Mapping[str, object] | None = None, status: int = 200) -> tuple[str, int]:
    """Render the form with its values kept, and each error beside its field."""
    page = render_template(
        "upload_links/public/form.html",
        link=link,
        workflow=WORKFLOWS.get(link.row.workflow),
        proof=signed_urls.sign_form(link.row.id, uuid.uuid4()),
        typed=request_body.typed(),
        errors=errors or {},
        settings=services().settings,
        back=_way_back(link),
    )
    return page, status


def closed_page(link: Link) -> tuple[str, int]:
    """Render the reason why the link accepts no documents."""
    return render_template(
        "upload_links/public/closed.html", said=public_messages.CLOSED[link.state], back=_way_back(link)
    ), 410


def gone_page(link: Link) -> tuple[str, int]:
    """Render the page for a document that was deleted, or whose link was revoked."""
    return render_template(
        "upload_links/public/closed.html", said=public_messages.HANDED_IN_GONE, back=_way_back(link)
    ), 410


def _way_back(link: Link) -> tuple[str, str] | None:
    """Return the URL to which the owner sends people back, and the name of that site; None if the link has none."""
    url = link.row.return_url
    return None if url is None else (url, urlsplit(url).hostname or url)
