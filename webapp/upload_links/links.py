"""Links by which people without an account hand in documents, for the account that made the link.

The address of a link is its id, signed; what it allows is its row, so that a link can be revoked and never allows more
than was said. The database's clock and counter decide.
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

MOST_LINKS = 1000
"""Open links of one account."""
EXPIRES_IN, SHORTEST, LONGEST = 3600, 60, 365 * 24 * 3600
"""Seconds: what a link lives if nothing is said, at least, and at most."""
MOST_USES, MOST_ORIGINS, LONGEST_ADDRESS, LONGEST_NAME = 10_000, 10, 2000, 60
# Only such text ever becomes part of a header, so that nothing can be smuggled into it. http is for one's own machine.
ORIGIN = r"^(https://[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?|http://(localhost|127\.0\.0\.1))(:[0-9]{1,5})?$"
ADDRESS = ORIGIN.removesuffix("$") + r"([/?#][!#$%&'()*+,./0-9:;=?@A-Z_a-z~-]*)?$"


class LinkState(StrEnum):
    """Whether documents may be handed in by a link, and if not, why. Those of a disabled account count as revoked."""

    OPEN = "open"
    USED_UP = "used_up"
    EXPIRED = "expired"
    REVOKED = "revoked"


class LinkClosed(Exception):
    """The link takes no document now."""


class TooManyLinks(Exception):
    """The account has as many open links as it may."""


@dataclass(frozen=True)
class Terms:
    """What a link allows, and what is made of the documents. `return_url` None: there is no way back to show.

    `name` is for its owner alone; None: it has none.
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
    """A link and whether it is open, by the database's clock."""

    row: UploadLink
    state: LinkState

    @property
    def token(self) -> str:
        """What stands for it in its address."""
        return signed_urls.sign(signed_urls.LINK, self.row.id)

    @property
    def address(self) -> str:
        """Where the form is. Whoever has this may use it."""
        return site_origin() + url_for("embed.form", token=self.token)

    @property
    def html(self) -> str:
        """What shows the form on a page of another site: at most two lines, to be copied as they are."""
        return render_template(
            "upload_links/_embed_code.html", upload_url=self.address, framed=bool(self.row.frame_origins)
        )


def is_origin(text: str) -> bool:
    """Whether this may be named as a site that shows the form."""
    return re.fullmatch(ORIGIN, text) is not None


def is_address(text: str) -> bool:
    """Whether the pages may lead back there."""
    return len(text) <= LONGEST_ADDRESS and re.fullmatch(ADDRESS, text) is not None


def _links() -> Select[Any]:
    state = case(
        (UploadLink.revoked_at.is_not(None) | is_disabled(UploadLink.account_id), LinkState.REVOKED),
        (UploadLink.expires_at <= func.now(), LinkState.EXPIRED),
        (UploadLink.uses >= UploadLink.max_uses, LinkState.USED_UP),
        else_=LinkState.OPEN,
    )
    return select(UploadLink, state).execution_options(populate_existing=True)


def make_link(session: Session, account_id: uuid.UUID, terms: Terms, *, kept_days: int) -> uuid.UUID:
    """Make a link; its id. Those that ended `kept_days` ago are forgotten: what came by them is gone by then too.

    Raises TooManyLinks.
    """
    ended = func.least(UploadLink.expires_at, func.coalesce(UploadLink.revoked_at, UploadLink.expires_at))
    session.execute(
        delete(UploadLink).where(
            UploadLink.account_id == account_id, ended < func.now() - seconds(kept_days * 24 * 3600)
        )
    )
    is_open = UploadLink.revoked_at.is_(None) & (UploadLink.expires_at > func.now())
    is_open &= UploadLink.uses < UploadLink.max_uses
    open_ones = select(func.count()).select_from(UploadLink).where(UploadLink.account_id == account_id, is_open)
    if session.execute(open_ones).scalar_one() >= MOST_LINKS:
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
    """The account's link. None for a missing one and for somebody else's alike."""
    row = session.execute(_links().where(UploadLink.id == link_id, UploadLink.account_id == account_id)).one_or_none()
    return None if row is None else Link(row[0], LinkState(row[1]))


def links_of(session: Session, account_id: uuid.UUID, *, limit: int, before: Cursor | None) -> list[Link]:
    """The account's links, newest first. `before` is where the last page ended."""
    statement = _links().where(UploadLink.account_id == account_id)
    if before is not None:
        statement = statement.where(tuple_(UploadLink.created_at, UploadLink.id) < tuple_(*before))
    newest = statement.order_by(UploadLink.created_at.desc(), UploadLink.id.desc()).limit(limit)
    return [Link(row[0], LinkState(row[1])) for row in session.execute(newest)]


def revoke(session: Session, link_id: uuid.UUID, account_id: uuid.UUID) -> None:
    """Close the account's link for good, and the pages of what was handed in by it. Nothing if it has none."""
    session.execute(
        update(UploadLink)
        .where(UploadLink.id == link_id, UploadLink.account_id == account_id)
        .values(revoked_at=func.coalesce(UploadLink.revoked_at, func.now()))
        .execution_options(synchronize_session=False)
    )


def jobs_by(link_id: uuid.UUID) -> Select[uuid.UUID]:
    """The ids of the jobs that were handed in by a link."""
    return select(UploadLinkUse.job_id).where(UploadLinkUse.link_id == link_id)


def link_at(session: Session, token: str) -> Link | None:
    """The link of an address, whether or not it is open; None for an address that we never gave."""
    read = signed_urls.read(signed_urls.LINK, token, 1)
    return None if read is None else _link(session, read[0])


def take_use(session: Session, link_id: uuid.UUID, job_id: uuid.UUID) -> None:
    """Count a job that was just recorded, in its transaction. Raises LinkClosed; then nothing may be committed."""
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
    """What stands for a handed-in document in the address of its page."""
    return signed_urls.sign(signed_urls.RECEIPT, link_id, job_id)


def link_and_job_at(session: Session, receipt: str) -> tuple[Link, uuid.UUID | None] | None:
    """What a receipt stands for; the job is None once it is deleted. None for a receipt that we never gave."""
    read = signed_urls.read(signed_urls.RECEIPT, receipt, 2)
    link = None if read is None else _link(session, read[0])
    if read is None or link is None:
        return None
    job_id = session.execute(jobs_by(read[0]).where(UploadLinkUse.job_id == read[1])).scalar_one_or_none()
    return link, job_id


def _link(session: Session, link_id: uuid.UUID) -> Link | None:
    row = session.execute(_links().where(UploadLink.id == link_id)).one_or_none()
    return None if row is None else Link(row[0], LinkState(row[1]))
