"""Who may sign in, and with what. The ledger knows an account only as an id; here that id gets its meaning."""

from __future__ import annotations

import uuid
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ARRAY, CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, Text, func, text
from sqlalchemy.orm import Mapped, mapped_column

from tasks.ledger.history import shutdown_probe  # noqa: F401  (their tables belong to the metadata too)
from tasks.ledger.models import Base, Document, Job, Submission, one_of
from tasks.ledger.models.accounts import DisabledAccount
from tasks.ledger.models.limits import AcceptedJob, AccountLimits
from tasks.ledger.models.notifications import NoticeWish

NO_PASSWORD = "-"
"""Stands where the hash of a password would. No password fits it."""


class Role(StrEnum):
    """What an account may do. An operator sees and replays everybody's work."""

    USER = "user"
    OPERATOR = "operator"


class Account(Base):
    """A person. `email` is stored in lower case. Flask-Login asks the four `is_…` questions.

    `password_hash` is NO_PASSWORD for who signs in elsewhere. `email_proven_at` None: nobody has shown that the address
    is theirs. A session counts while it has today's `session_stamp`. `exporting_until` None: no export runs.
    `language` None: the one that the browser asks for.
    """

    __tablename__ = "accounts"
    __table_args__ = (
        CheckConstraint(one_of("role", Role), name="role_is_known"),
        # Letter by letter, whatever the language of the database, so that it finds how an address begins.
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
        """What the session cookie holds."""
        return self.id.hex

    @property
    def is_operator(self) -> bool:
        """Whether the operator's pages are open to this account."""
        return self.role == Role.OPERATOR

    @property
    def has_password(self) -> bool:
        """Whether one can sign in with a password."""
        return self.password_hash != NO_PASSWORD


class BrowserSession(Base):
    """A sign-in that was not ended yet. The cookie holds its id; without this row the cookie opens nothing.

    It counts while `stamp` is the account's `session_stamp`. `seen_at` is moved on once a day.
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
    """The right to make one account. Only the hash of its link's token is kept.

    `email` None: for any address. `made_by` is the operator's address; None: from a terminal. `used_at` None: not yet.
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
    """Who an account is to a sign-in service: its address as `issuer`, and its unchanging name for the person."""

    __tablename__ = "identities"
    __table_args__ = (Index("identities_of_an_account", "account_id"),)

    issuer: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ApiToken(Base):
    """A key for the API. Only its hash is kept; the token itself is shown once, when it is made."""

    __tablename__ = "api_tokens"
    __table_args__ = (Index("tokens_of_an_account", "account_id"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    account_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    name: Mapped[str]
    token_hash: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    last_used_at: Mapped[datetime | None]


class UploadLink(Base):
    """A way in for people without an account: whoever has the link may hand in `max_uses` documents for its owner.

    `name` is its owner's word for it, None where they gave none; nobody else is shown it. What is wanted of the
    documents is fixed here. `frame_origins` are the sites whose pages may show the form;
    `show_result` False keeps what was made from whoever handed the document in.
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


# The ledger does not know what an account is, so that it needs nothing of the web; the database does.
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
# Notices have none, and neither have the tokens of a month: a worker that writes them holds the job's row, and would
# wait for the account's, while somebody who deletes the account holds that one and waits for the job's.
