"""The API for upload links: a site owner creates one, and people without an account hand in documents by it."""

from __future__ import annotations

import uuid
from typing import Any

from flask import g, url_for
from flask.typing import ResponseReturnValue

from webapp.api.blueprint import api
from webapp.api.jobs import job_list, page_answer, page_asked_for
from webapp.api.requests import ApiOptions, Problem, body_fields, flag_of, instant, json_response, number_of, text_of
from webapp.database import transaction
from webapp.http import pagination
from webapp.http.errors import PAGES, problem
from webapp.http.rejection import NotAccepted
from webapp.jobs.parsing import DEFAULT_WORKFLOW, parse_workflow
from webapp.services import services
from webapp.text.strings import cut, one_line
from webapp.upload_links import links
from webapp.upload_links.links import Link, LinkTerms, TooManyLinks

FIELDS = ("name", "workflow", "options", "expires_in", "max_uses", "frame_origins", "return_url", "show_result")


@api.post("/upload-links")
def create_upload_link() -> ResponseReturnValue:
    """Create a link by which people without an account hand in documents for this one.

    The link fixes what is made of the documents. Show the form on a page of your own with `html`, or send people to
    `upload_url`. Anyone who has the address may use it, until it expires, is used up, or is revoked.
    """
    fields = body_fields(FIELDS)
    workflow, options = parse_workflow(text_of(fields, "workflow", DEFAULT_WORKFLOW), ApiOptions(fields))
    terms = LinkTerms(
        name=_name(fields),
        workflow=workflow.name,
        options=options,
        expires_in_seconds=number_of(fields, "expires_in", links.EXPIRES_IN, links.MIN_SECONDS, links.MAX_SECONDS),
        max_uses=number_of(fields, "max_uses", 1, 1, links.MAX_USES),
        frame_origins=_origins(fields),
        return_url=_return_url(fields),
        show_result=flag_of(fields, "show_result"),
    )
    try:
        with transaction() as session:
            link_id = links.make_link(session, g.account_id, terms, kept_days=services().settings.retention_days)
    except TooManyLinks:
        detail = f"There are {links.MAX_LINKS} open ones. Revoke some first."
        raise Problem(problem(409, "There are too many upload links", detail)) from None
    response = json_response(link_json(_link(link_id)), 201)
    response.headers["Location"] = url_for("api.show_upload_link", link_id=link_id)
    return response


def _name(fields: dict[str, Any]) -> str | None:
    if fields.get("name") is None:
        return None
    return cut(one_line(text_of(fields, "name", "")), links.MAX_NAME_LENGTH) or None


def _origins(fields: dict[str, Any]) -> list[str]:
    given = fields.get("frame_origins", [])
    well = isinstance(given, list) and len(given) <= links.MAX_ORIGINS and all(isinstance(one, str) for one in given)
    if not well or not all(map(links.is_origin, given)):
        raise NotAccepted(
            "frame_origins_wrong",
            f"frame_origins must be a list of at most {links.MAX_ORIGINS} origins like https://www.example.org.",
            field="frame_origins",
        )
    return list(dict.fromkeys(given))


def _return_url(fields: dict[str, Any]) -> str | None:
    if fields.get("return_url") is None:
        return None
    given = text_of(fields, "return_url", "")
    if not links.is_address(given):
        raise NotAccepted(
            "return_url_wrong", "return_url must be an address that starts with https://.", field="return_url"
        )
    return given


@api.get("/upload-links")
def list_upload_links() -> ResponseReturnValue:
    """List the account's upload links, newest first; `next` leads to the older ones."""
    limit, before = page_asked_for()
    with transaction() as session:
        found = links.links_of(session, g.account_id, limit=limit + 1, before=before)
    older = None
    if len(found) > limit:
        last = found[limit - 1].row
        older = url_for("api.list_upload_links", before=pagination.after((last.created_at, last.id)), limit=limit)
    return page_answer("upload_links", [link_json(link) for link in found[:limit]], older)


@api.get("/upload-links/<uuid:link_id>")
def show_upload_link(link_id: uuid.UUID) -> ResponseReturnValue:
    """Show the link."""
    return json_response(link_json(_link(link_id)))


@api.get("/upload-links/<uuid:link_id>/jobs")
def list_jobs_of_upload_link(link_id: uuid.UUID) -> ResponseReturnValue:
    """List the jobs that were handed in by the link, newest first."""
    _link(link_id)
    return job_list("api.list_jobs_of_upload_link", among=links.jobs_by(link_id), link_id=link_id)


@api.post("/upload-links/<uuid:link_id>/revoke")
def revoke_upload_link(link_id: uuid.UUID) -> ResponseReturnValue:
    """Revoke the link. It accepts no more documents, and the pages of those it accepted are closed; the jobs stay."""
    with transaction() as session:
        links.revoke(session, link_id, g.account_id)
    return json_response(link_json(_link(link_id)))


def _link(link_id: uuid.UUID) -> Link:
    with transaction() as session:
        link = links.link_of(session, link_id, g.account_id)
    if link is None:
        raise Problem(problem(404, PAGES[404][0]))
    return link


def link_json(link: Link) -> dict[str, Any]:
    """Return a link as the API shows it."""
    row = link.row
    return {
        "id": str(row.id),
        "name": row.name,
        "state": str(link.state),
        "workflow": row.workflow,
        "options": row.options,
        "uses": row.uses,
        "max_uses": row.max_uses,
        "frame_origins": row.frame_origins,
        "return_url": row.return_url,
        "show_result": row.show_result,
        "created_at": instant(row.created_at),
        "expires_at": instant(row.expires_at),
        "upload_url": link.address,
        "html": link.html,
        "url": url_for("api.show_upload_link", link_id=row.id),
        "jobs_url": url_for("api.list_jobs_of_upload_link", link_id=row.id),
    }
