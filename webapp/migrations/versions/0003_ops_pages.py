"""ops pages: the indexes they read by, workers that said goodbye, documents that an operator opened

Writes wait while the indexes are made: some seconds where there are a million jobs.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

NEWEST_FIRST: list[Any] = [sa.literal_column("created_at DESC"), sa.literal_column("id DESC")]
EVENTS_BEFORE = "event IN ('cancel', 'checkpoint', 'claim', 'expire', 'fail', 'record', 'release', 'renew', 'replay', 'retry_later', 'succeed')"
EVENTS = "event IN ('cancel', 'checkpoint', 'claim', 'expire', 'fail', 'inspect', 'record', 'release', 'renew', 'replay', 'retry_later', 'succeed')"


def upgrade() -> None:
    op.create_index("jobs_about_a_document", "jobs", ["document_id"])
    op.create_index("jobs_newest_first", "jobs", NEWEST_FIRST)
    op.create_index("jobs_in_a_state_newest_first", "jobs", ["state", *NEWEST_FIRST])
    op.create_index("jobs_of_a_workflow_newest_first", "jobs", ["workflow", *NEWEST_FIRST])
    op.create_index(
        "jobs_with_a_cause_newest_first",
        "jobs",
        ["error_category", *NEWEST_FIRST],
        postgresql_where=sa.text("error_category IS NOT NULL"),
    )
    op.create_index(
        "finished_jobs_by_end", "jobs", ["finished_at"], postgresql_where=sa.text("finished_at IS NOT NULL")
    )
    op.create_index("ended_attempts_by_end", "attempts", ["ended_at"], postgresql_where=sa.text("ended_at IS NOT NULL"))
    op.create_index("calls_by_start", "provider_calls", ["started_at"])
    op.create_index(
        "setbacks_by_time",
        "events",
        ["at"],
        postgresql_where=sa.text("event IN ('expire', 'release', 'retry_later')"),
    )
    # A worker of the version before deletes its row instead; both are read right.
    op.add_column("workers", sa.Column("left_at", sa.DateTime(timezone=True), nullable=True))
    op.drop_constraint("event_is_known", "events", type_="check")
    op.create_check_constraint(op.f("event_is_known"), "events", EVENTS)


def downgrade() -> None:
    op.execute("DELETE FROM events WHERE event = 'inspect'")
    op.drop_constraint("event_is_known", "events", type_="check")
    op.create_check_constraint(op.f("event_is_known"), "events", EVENTS_BEFORE)
    op.drop_column("workers", "left_at")
    op.drop_index("setbacks_by_time", table_name="events")
    op.drop_index("calls_by_start", table_name="provider_calls")
    op.drop_index("ended_attempts_by_end", table_name="attempts")
    for name in (
        "finished_jobs_by_end",
        "jobs_with_a_cause_newest_first",
        "jobs_of_a_workflow_newest_first",
        "jobs_in_a_state_newest_first",
        "jobs_newest_first",
        "jobs_about_a_document",
    ):
        op.drop_index(name, table_name="jobs")
