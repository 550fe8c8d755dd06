"""Accounts and their credentials. The ledger knows an account only as an id; these tables say who it is."""

from __future__ import annotations

import uuid
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ARRAY, CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, Text, func, text
from sqlalchemy.orm import Mapped, mapped_column

from tasks.ledger.models import Base, Document, Job, Submission, one_of
from tasks.ledger.models import workers as workers  # its table belongs to the metadata, too
from tasks.ledger.models.accounts import DisabledAccount
from tasks.ledger.models.limits import AcceptedJob, AccountLimits
from tasks.ledger.models.notifications import NoticeWish

NO_PASSWORD = "-"
"""Replaces the password hash of accounts without a password. No password matches it."""


class Role(StrEnum):
    """The role of an account. An operator sees and replays everybody's work."""

    USER = "user"
    OPERATOR = "operator"


class Account(Base):
    """The account of a person. `email` is stored in lower case. Flask-Login reads the four `is_…` attributes.

    `password_hash` is NO_PASSWORD for people who sign in elsewhere. `email_proven_at` is None until somebody has proven
    to own the address. A session is valid while it has the current `session_stamp`. `exporting_until` is None while no
    export runs. `language` None follows the browser.
    """

    __tablename__ = "accounts"
    __table_args__ = (
        CheckConstraint(one_of("role", Role), name="role_is_known"),
        # Compares letter by letter, whatever the language of the database, so that it finds prefixes of addresses.
        Index("accounts_by_address", "email", postgresql_ops={"email": "text_pattern_ops"}),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    email: Mapped[str] = mapped_column(unique=True)
    password_hash: Mapped[str]
    role: Mapped[str] = mapped_column(default=Role.USER)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    email_proven_at: Mapped[datetime | None]
    session_stamp: Mapped[int] = mapped_column(default=0, server_default="0")
    exporting_until: Mapped[datetime | None]
    language: Mapped[str | None]

    is_authenticated = True
    is_active = True
    is_anonymous = False

    def get_id(self) -> str:
        """Return the id that the session cookie holds."""
        return self.id.hex

    @property
    def is_operator(self) -> bool:
        """True if this account may use the operators' pages."""
        return self.role == Role.OPERATOR

    @property
    def has_password(self) -> bool:
        """True if the account can sign in with a password."""
        return self.password_hash != NO_PASSWORD


class BrowserSession(Base):
    """A sign-in that has not ended yet. The cookie holds its id; without this row the cookie grants nothing.

    It is valid while `stamp` equals the account's `session_stamp`. `seen_at` is updated once a day.
    """

    __tablename__ = "sessions"
    __table_args__ = (
        Index("sessions_of_an_account", "account_id", "seen_at"),
        Index("sessions_longest_unseen", "seen_at"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    account_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    stamp: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Invitation(Base):
    """The right to create one account. Only the hash of its link's token is stored.

    `email` None allows any address. `made_by` is the operator's address, None from a terminal. `used_at` is None until
    used.
    """

    __tablename__ = "invitations"
    __table_args__ = (Index("invitations_newest_first", text("created_at DESC"), "id"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    token_hash: Mapped[str] = mapped_column(unique=True)
    email: Mapped[str | None]
    made_by: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]


class Identity(Base):
    """An account's identity at a sign-in service: its URL as `issuer`, and its unchanging name for the person."""

    __tablename__ = "identities"
    __table_args__ = (Index("identities_of_an_account", "account_id"),)

    issuer: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ApiToken(Base):
    """A key for the API. Only its hash is stored; the token itself is shown once, when it is created."""

    __tablename__ = "api_tokens"
    __table_args__ = (Index("tokens_of_an_account", "account_id"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    account_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    name: Mapped[str]
    token_hash: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    last_used_at: Mapped[datetime | None]


class UploadLink(Base):
    """A link by which people without an account may hand in `max_uses` documents for its owner.

    `name` is the owner's private label, or None. The workflow and its options are fixed here. `frame_origins` are the
    sites whose pages may show the form; `show_result` False hides the result from the person who handed the document
    in.
    """

    __tablename__ = "upload_links"
    __table_args__ = (
        CheckConstraint("uses BETWEEN 0 AND max_uses", name="no_more_uses_than_allowed"),
        Index("upload_links_of_an_account", "account_id", "created_at", "id"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    account_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    name: Mapped[str | None]
    workflow: Mapped[str]
    options: Mapped[dict[str, Any]]
    max_uses: Mapped[int]
    uses: Mapped[int] = mapped_column(server_default="0")
    frame_origins: Mapped[list[str]] = mapped_column(ARRAY(Text))
    return_url: Mapped[str | None]
    show_result: Mapped[bool]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]


class UploadLinkUse(Base):
    """A job that was handed in by a link. Deleted with the job; the link's count stays."""

    __tablename__ = "upload_link_uses"
    __table_args__ = (Index("uses_of_an_upload_link", "link_id"),)

    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    link_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("upload_links.id", ondelete="CASCADE"))


# The ledger does not know accounts, so that it does not depend on the web app. The database enforces the references.
for owned in (Job, Document, Submission):
    owned.__table__.append_constraint(  # type: ignore[attr-defined]
        ForeignKeyConstraint(["account_id"], ["accounts.id"], name=f"fk_{owned.__tablename__}_account_id")
    )
for gone_with_it in (NoticeWish, AccountLimits, AcceptedJob, DisabledAccount):
    gone_with_it.__table__.append_constraint(  # type: ignore[attr-defined]
        ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=f"fk_{gone_with_it.__tablename__}_account_id",
            ondelete="CASCADE",
        )
    )
# Notices and monthly tokens have no foreign key: a worker that writes them holds the job's row and would wait for the
# account's, while somebody who deletes the account holds that row and waits for the job's.
