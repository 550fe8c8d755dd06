"""Upload links: people without an account submit documents for the account that made the link.

The URL of a link is its signed id. Its row stores what it allows, so that it can be revoked and never allows more than
its owner chose. The clock and the counter of the database decide.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from flask import render_template, url_for
from sqlalchemy import Select, case, delete, func, select, tuple_, update
from sqlalchemy.orm import Session

from tasks.ledger.accounts.disabled import is_disabled
from tasks.ledger.sql_intervals import seconds
from webapp.http.pagination import Cursor
from webapp.models import UploadLink, UploadLinkUse
from webapp.services import site_origin
from webapp.upload_links import signed_urls

MAX_LINKS = 1000
"""The most open links of an account."""
EXPIRES_IN, MIN_SECONDS, MAX_SECONDS = 3600, 60, 365 * 24 * 3600
"""The lifetime of a link in seconds: the default, the shortest, and the longest."""
MAX_USES, MAX_ORIGINS, MAX_URL_LENGTH, MAX_NAME_LENGTH = 10_000, 10, 2000, 60
# Only text that matches goes into a header, so that nothing can be injected there. http is for local development.
ORIGIN = r"^(https://[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?|http://(localhost|127\.0\.0\.1))(:[0-9]{1,5})?$"
ADDRESS = ORIGIN.removesuffix("$") + r"([/?#][!#$%&'()*+,./0-9:;=?@A-Z_a-z~-]*)?$"


class LinkState(StrEnum):
    """Represents whether a link accepts documents, and if not, why. Links of a disabled account count as revoked."""

    OPEN = "open"
    USED_UP = "used_up"
    EXPIRED = "expired"
    REVOKED = "revoked"


class LinkClosed(Exception):
    """Raised if the link does not accept documents now."""


class TooManyLinks(Exception):
    """Raised if the account has reached the limit of open links."""


@dataclass(frozen=True)
class LinkTerms:
    """Represents what a link allows, and what is made of the documents.

    `return_url` is None if no way back is shown. `name` is shown only to the owner; None if the link has none.
    """

    name: str | None
    workflow: str
    options: Mapping[str, Any]
    expires_in_seconds: int
    max_uses: int
    frame_origins: Sequence[str]
    return_url: str | None
    show_result: bool


@dataclass(frozen=True)
class Link:
    """Represents a link with its state by the clock of the database."""

    row: UploadLink
    state: LinkState

    @property
    def token(self) -> str:
        """Return the signed token of the link in its URL."""
        return signed_urls.sign(signed_urls.LINK, self.row.id)

    @property
    def address(self) -> str:
        """Return the URL of the form. Everybody who has it can use the link."""
        return site_origin() + url_for("embed.form", token=self.token)

    @property
    def html(self) -> str:
        """Return the HTML that shows the form on a page of another site: at most two lines, to be copied unchanged."""
        return render_template(
            "upload_links/_embed_code.html", upload_url=self.address, framed=bool(self.row.frame_origins)
        )


def is_origin(text: str) -> bool:
    """Return True if the text is an origin that may be named as a site that shows the form."""
    return re.fullmatch(ORIGIN, text) is not None


def is_address(text: str) -> bool:
    """Return True if the text is a URL that the pages may link back to."""
    return len(text) <= MAX_URL_LENGTH and re.fullmatch(ADDRESS, text) is not None


def _links() -> Select[Any]:
    state = case(
        (UploadLink.revoked_at.is_not(None) | is_disabled(UploadLink.account_id), LinkState.REVOKED),
        (UploadLink.expires_at <= func.now(), LinkState.EXPIRED),
        (UploadLink.uses >= UploadLink.max_uses, LinkState.USED_UP),
        else_=LinkState.OPEN,
    )
    return select(UploadLink, state).execution_options(populate_existing=True)


def make_link(session: Session, account_id: uuid.UUID, terms: LinkTerms, *, kept_days: int) -> uuid.UUID:
    """Make a link and return its id. Raises TooManyLinks.

    Deletes the account's links that ended more than `kept_days` ago: the documents from them are gone by then too.
    """
    ended = func.least(UploadLink.expires_at, func.coalesce(UploadLink.revoked_at, UploadLink.expires_at))
    session.execute(
        delete(UploadLink).where(
            UploadLink.account_id == account_id, ended < func.now() - seconds(kept_days * 24 * 3600)
        )
    )
    is_open = UploadLink.revoked_at.is_(None) & (UploadLink.expires_at > func.now())
    is_open &= UploadLink.uses < UploadLink.max_uses
    open_links = select(func.count()).select_from(UploadLink).where(UploadLink.account_id == account_id, is_open)
    if session.execute(open_links).scalar_one() >= MAX_LINKS:
        raise TooManyLinks
    link_id = uuid.uuid4()
    link = UploadLink(
        id=link_id,
        account_id=account_id,
        name=terms.name,
        workflow=terms.workflow,
        options=dict(terms.options),
        max_uses=terms.max_uses,
        frame_origins=list(terms.frame_origins),
        return_url=terms.return_url,
        show_result=terms.show_result,
        expires_at=func.now() + seconds(terms.expires_in_seconds),
    )
    session.add(link)
    session.flush()
    return link_id


def link_of(session: Session, link_id: uuid.UUID, account_id: uuid.UUID) -> Link | None:
    """Return the account's link. Returns None both for a missing link and for another account's."""
    row = session.execute(_links().where(UploadLink.id == link_id, UploadLink.account_id == account_id)).one_or_none()
    return None if row is None else Link(row[0], LinkState(row[1]))


def links_of(session: Session, account_id: uuid.UUID, *, limit: int, before: Cursor | None) -> list[Link]:
    """Return the account's links, newest first. `before` is the position at which the last page ended."""
    statement = _links().where(UploadLink.account_id == account_id)
    if before is not None:
        statement = statement.where(tuple_(UploadLink.created_at, UploadLink.id) < tuple_(*before))
    newest = statement.order_by(UploadLink.created_at.desc(), UploadLink.id.desc()).limit(limit)
    return [Link(row[0], LinkState(row[1])) for row in session.execute(newest)]


def revoke(session: Session, link_id: uuid.UUID, account_id: uuid.UUID) -> None:
    """Revoke the account's link for good, and with it the pages of its documents. A missing link is ignored."""
    session.execute(
        update(UploadLink)
        .where(UploadLink.id == link_id, UploadLink.account_id == account_id)
        .values(revoked_at=func.coalesce(UploadLink.revoked_at, func.now()))
        .execution_options(synchronize_session=False)
    )


def jobs_by(link_id: uuid.UUID) -> Select[uuid.UUID]:
    """Return a query for the ids of the jobs that were submitted by a link."""
    return select(UploadLinkUse.job_id).where(UploadLinkUse.link_id == link_id)


def link_at(session: Session, token: str) -> Link | None:
    """Return the link of a token, open or not; None for a token that this site did not sign."""
    ids = signed_urls.read(signed_urls.LINK, token, 1)
    return None if ids is None else _link(session, ids[0])


def take_use(session: Session, link_id: uuid.UUID, job_id: uuid.UUID) -> None:
    """Count a job that was just created, in its transaction. Raises LinkClosed; the caller must then roll back."""
    taken = session.execute(
        update(UploadLink)
        .where(
            UploadLink.id == link_id,
            UploadLink.revoked_at.is_(None),
            UploadLink.expires_at > func.now(),
            UploadLink.uses < UploadLink.max_uses,
            ~is_disabled(UploadLink.account_id),
        )
        .values(uses=UploadLink.uses + 1)
        .returning(UploadLink.id)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if taken is None:
        raise LinkClosed
    session.add(UploadLinkUse(job_id=job_id, link_id=link_id))


def receipt_of(link_id: uuid.UUID, job_id: uuid.UUID) -> str:
    """Return the signed token of a submitted document in the URL of its page."""
    return signed_urls.sign(signed_urls.RECEIPT, link_id, job_id)


def link_and_job_at(session: Session, receipt: str) -> tuple[Link, uuid.UUID | None] | None:
    """Return the link and the job of a receipt; the job is None once it is deleted.

    Returns None for a receipt that this site did not sign.
    """
    ids = signed_urls.read(signed_urls.RECEIPT, receipt, 2)
    link = None if ids is None else _link(session, ids[0])
    if ids is None or link is None:
        return None
    job_id = session.execute(jobs_by(ids[0]).where(UploadLinkUse.job_id == ids[1])).scalar_one_or_none()
    return link, job_id


def _link(session: Session, link_id: uuid.UUID) -> Link | None:
    row = session.execute(_links().where(UploadLink.id == link_id)).one_or_none()
    return None if row is None else Link(row[0], LinkState(row[1]))
