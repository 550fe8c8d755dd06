"""links by which people without an account hand in documents"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "upload_links",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("workflow", sa.Text(), nullable=False),
        sa.Column("options", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("max_uses", sa.Integer(), nullable=False),
        sa.Column("uses", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("frame_origins", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("return_url", sa.Text(), nullable=True),
        sa.Column("show_result", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("uses BETWEEN 0 AND max_uses", name="no_more_uses_than_allowed"),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_upload_links_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_upload_links")),
    )
    op.create_index("upload_links_of_an_account", "upload_links", ["account_id", "created_at", "id"], unique=False)
    op.create_table(
        "upload_link_uses",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("link_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_upload_link_uses_job_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["link_id"], ["upload_links.id"], name=op.f("fk_upload_link_uses_link_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_upload_link_uses")),
    )
    op.create_index("uses_of_an_upload_link", "upload_link_uses", ["link_id"], unique=False)


def downgrade() -> None:
    op.drop_table("upload_link_uses")
    op.drop_table("upload_links")
