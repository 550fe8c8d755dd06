"""content that is deleted after a time, and the grace that a host was seen to give"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("content_deleted_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "finished_jobs_with_content",
        "jobs",
        ["finished_at"],
        unique=False,
        postgresql_where=sa.text("finished_at IS NOT NULL AND content_deleted_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_index(
        "finished_jobs_with_content",
        table_name="jobs",
        postgresql_where=sa.text("finished_at IS NOT NULL AND content_deleted_at IS NULL"),
    )
    op.drop_column("jobs", "content_deleted_at")
