"""the language an account, and a mail, is written in"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("accounts", sa.Column("language", sa.Text(), nullable=True))
    op.add_column("notice_wishes", sa.Column("language", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("notice_wishes", "language")
    op.drop_column("accounts", "language")
