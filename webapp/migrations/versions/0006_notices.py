"""notices, who wants them, and alerts"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

UNSETTLED = "sent_at IS NULL AND gave_up_at IS NULL"


def upgrade() -> None:
    op.create_table(
        "notices",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=True),
        sa.Column("job_id", sa.Uuid(), nullable=True),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("facts", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("gave_up_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.CheckConstraint("channel IN ('email', 'webhook')", name=op.f("notice_channel_is_known")),
        sa.CheckConstraint("sent_at IS NULL OR gave_up_at IS NULL", name=op.f("a_notice_is_sent_or_given_up")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_notices_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notices")),
        sa.UniqueConstraint("key", name=op.f("uq_notices_key")),
    )
    op.create_index(
        "notices_by_due_time", "notices", ["queue", "channel", "due_at"], postgresql_where=sa.text(UNSETTLED)
    )
    op.create_index(
        "notices_of_an_account",
        "notices",
        ["account_id", "channel", sa.text("created_at DESC")],
        postgresql_where=sa.text("account_id IS NOT NULL"),
    )
    op.create_index("notices_of_a_job", "notices", ["job_id"], postgresql_where=sa.text("job_id IS NOT NULL"))
    op.create_index("settled_notices_by_age", "notices", ["created_at"], postgresql_where=sa.text(f"NOT ({UNSETTLED})"))
    op.create_table(
        "notice_wishes",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("email_on", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("webhook_url", sa.Text(), nullable=True),
        sa.Column("webhook_secret", sa.Text(), nullable=True),
        sa.Column("changed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("(webhook_url IS NULL) = (webhook_secret IS NULL)", name=op.f("a_webhook_has_a_secret")),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_notice_wishes_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_notice_wishes")),
    )
    op.create_table(
        "alerts",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("facts", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("told_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("calm_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "kind IN ('failures', 'lane_stopped', 'orphans', 'queue_age')", name=op.f("alert_kind_is_known")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
    )
    op.create_index(
        "one_open_alert_of_a_kind",
        "alerts",
        ["queue", "kind"],
        unique=True,
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index("alerts_by_age", "alerts", ["queue", "began_at"])
    # The version that runs during the release leaves it empty, which means: as the account wants it.
    op.add_column("jobs", sa.Column("email_when_done", sa.Boolean(), nullable=True))
    op.create_index(
        "failed_jobs_by_end", "jobs", ["queue", "finished_at"], postgresql_where=sa.text("state = 'failed'")
    )


def downgrade() -> None:
    op.drop_index("failed_jobs_by_end", table_name="jobs")
    op.drop_column("jobs", "email_when_done")
    op.drop_table("alerts")
    op.drop_table("notice_wishes")
    op.drop_table("notices")
