"""The table of disabled accounts."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import func
from sqlalchemy.orm import Mapped, mapped_column

from tasks.ledger.models import Base


class DisabledAccount(Base):
    """An account that an operator has disabled. The audit log (`decisions`) says who did it and why."""

    __tablename__ = "disabled_accounts"

    account_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    disabled_at: Mapped[datetime] = mapped_column(server_default=func.now())
