"""Who may sign in, and with what. The ledger knows an account only as an id; here that id gets its meaning."""

from __future__ import annotations

import uuid
from datetime import datetime
from enum import StrEnum

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from tasks.ledger import decision_models, grace  # noqa: F401  (their tables belong to the metadata too)
from tasks.ledger.models import Base, Document, Job, Submission, one_of
from tasks.ledger.notice_models import NoticeWish


class Role(StrEnum):
    """What an account may do. An operator sees and replays everybody's work."""

    USER = "user"
    OPERATOR = "operator"


class Account(Base):
    """A person. `email` is stored in lower case. Flask-Login asks the four `is_…` questions."""

    __tablename__ = "accounts"
    __table_args__ = (CheckConstraint(one_of("role", Role), name="role_is_known"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    email: Mapped[str] = mapped_column(unique=True)
    password_hash: Mapped[str]
    role: Mapped[str] = mapped_column(default=Role.USER)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())

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


# The ledger does not know what an account is, so that it needs nothing of the web; the database does.
for owned in (Job, Document, Submission):
    owned.__table__.append_constraint(  # type: ignore[attr-defined]
        ForeignKeyConstraint(["account_id"], ["accounts.id"], name=f"fk_{owned.__tablename__}_account_id")
    )
NoticeWish.__table__.append_constraint(  # type: ignore[attr-defined]
    ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_notice_wishes_account_id", ondelete="CASCADE")
)
# Notices have none: a worker that ends a job holds the job's row, and would wait for the account's, while somebody who
# deletes the account holds that one and waits for the job's.
