"""metrics: attempts by their end, for figures of the last hour"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "metrics"
down_revision = "ops_pages"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ended_attempts_by_end", "attempts", ["ended_at"], postgresql_where=sa.text("ended_at IS NOT NULL"))


def downgrade() -> None:
    op.drop_index("ended_attempts_by_end", table_name="attempts", postgresql_where=sa.text("ended_at IS NOT NULL"))
