"""calls that can be asked about"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "left_responses",
        sa.Column("response_id", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("left_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("response_id", name=op.f("pk_left_responses")),
    )
    # The default lets the version that runs during the release write its rows as before.
    op.add_column(
        "provider_calls", sa.Column("background", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.add_column("provider_calls", sa.Column("response_deleted_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "responses_kept_by_the_provider",
        "provider_calls",
        ["lane", "started_at"],
        unique=False,
        postgresql_where=sa.text("background AND response_deleted_at IS NULL AND outcome <> 'open'"),
    )


def downgrade() -> None:
    op.drop_index(
        "responses_kept_by_the_provider",
        table_name="provider_calls",
        postgresql_where=sa.text("background AND response_deleted_at IS NULL AND outcome <> 'open'"),
    )
    op.drop_column("provider_calls", "response_deleted_at")
    op.drop_column("provider_calls", "background")
    op.drop_table("left_responses")
