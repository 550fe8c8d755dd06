"""What the ledger has to know of an account besides its id: whether work for it goes on."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import func
from sqlalchemy.orm import Mapped, mapped_column

from tasks.ledger.models import Base


class DisabledAccount(Base):
    """An account that an operator has disabled. Who did it, and why, stands among the decisions."""

    __tablename__ = "disabled_accounts"

    account_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    disabled_at: Mapped[datetime] = mapped_column(server_default=func.now())
