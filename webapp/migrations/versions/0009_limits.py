"""what an account may ask for, and what it has asked for"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "account_limits",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("jobs_per_day", sa.Integer(), nullable=True),
        sa.Column("jobs_at_once", sa.Integer(), nullable=True),
        sa.Column("tokens_per_month", sa.BigInteger(), nullable=True),
        sa.Column("changed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "jobs_per_day >= 0 AND jobs_at_once >= 0 AND tokens_per_month >= 0", name="limits_do_not_go_below_zero"
        ),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_account_limits_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_account_limits")),
    )
    op.create_table(
        "accepted_jobs",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_accepted_jobs_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_accepted_jobs")),
    )
    op.create_index("accepted_jobs_of_an_account", "accepted_jobs", ["account_id", "at"], unique=False)
    op.create_table(
        "tokens_of_months",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("begins_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "begins_at", name=op.f("pk_tokens_of_months")),
    )
    op.create_index(
        "unfinished_jobs_of_an_account",
        "jobs",
        ["account_id"],
        unique=False,
        postgresql_where=sa.text("finished_at IS NULL"),
    )
    op.create_index(
        "deliveries_handed_over", "deliveries", ["queue"], unique=False, postgresql_where=sa.text("dispatches > 0")
    )
    _count_what_was_before()


def _count_what_was_before() -> None:
    """Count what was requested before the release, so that a limit holds from its first day."""
    op.execute(
        "INSERT INTO accepted_jobs (job_id, account_id, at) SELECT id, account_id, created_at FROM jobs "
        "WHERE created_at > now() - interval '24 hours'"
    )
    op.execute(
        "INSERT INTO tokens_of_months (account_id, begins_at, tokens) "
        "SELECT jobs.account_id, date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC', "
        "sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) "
        "FROM provider_calls JOIN jobs ON jobs.id = provider_calls.job_id "
        "WHERE ended_at >= date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' "
        "GROUP BY jobs.account_id HAVING sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) > 0"
    )


def downgrade() -> None:
    op.drop_index("deliveries_handed_over", table_name="deliveries", postgresql_where=sa.text("dispatches > 0"))
    op.drop_index("unfinished_jobs_of_an_account", table_name="jobs", postgresql_where=sa.text("finished_at IS NULL"))
    op.drop_table("tokens_of_months")
    op.drop_table("accepted_jobs")
    op.drop_table("account_limits")
