"""decisions of operators"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("facts", JSONB(), nullable=False),
        sa.CheckConstraint(
            "what IN ('drain', 'open_lane', 'pause', 'replay', 'resume', 'stop_replay')", name=op.f("decision_is_known")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
    )
    op.create_index("decisions_of_a_queue", "decisions", ["queue", "id"], unique=False)
    op.create_table(
        "gates",
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("dispatch_stopped", sa.Boolean(), nullable=False),
        sa.Column("claims_stopped", sa.Boolean(), nullable=False),
        sa.Column("at_once", sa.Integer(), nullable=True),
        sa.Column("changed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.CheckConstraint("at_once > 0", name=op.f("at_least_one_at_once")),
        sa.CheckConstraint(
            "dispatch_stopped OR NOT claims_stopped", name=op.f("claims_stop_only_where_dispatch_has_stopped")
        ),
        sa.PrimaryKeyConstraint("queue", name=op.f("pk_gates")),
    )
    op.create_table(
        "replays",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=True),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("per_minute", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_because", sa.Text(), nullable=True),
        sa.Column("ended_by", sa.Text(), nullable=True),
        sa.CheckConstraint("(state = 'running') = (ended_at IS NULL)", name=op.f("a_replay_that_ended_knows_when")),
        sa.CheckConstraint(
            "cause IN ('cause_fixed', 'credentials_renewed', 'mistake', 'other', 'provider_recovered')",
            name=op.f("replay_cause_is_known"),
        ),
        sa.CheckConstraint("state IN ('finished', 'running', 'stopped')", name=op.f("replay_state_is_known")),
        sa.CheckConstraint("(ended_at IS NULL) = (ended_because IS NULL)", name=op.f("a_replay_that_ended_knows_why")),
        sa.CheckConstraint("per_minute > 0", name=op.f("a_replay_has_a_rate")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replays")),
    )
    op.create_index("replays_newest_first", "replays", ["queue", sa.literal_column("created_at DESC")], unique=False)
    op.create_index(
        "running_replays", "replays", ["queue", "next_at"], unique=False, postgresql_where=sa.text("state = 'running'")
    )
    op.create_table(
        "replay_items",
        sa.Column("replay_id", sa.Uuid(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("category", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "category IN ('auth', 'connection', 'content_policy', 'crashed', 'deadline', 'internal', 'invalid_document', 'invalid_request', 'overloaded', 'permission', 'quota', 'rate_limited', 'timeout', 'uncertain')",
            name=op.f("item_category_is_known"),
        ),
        sa.CheckConstraint("outcome IN ('left_alone', 'replayed')", name=op.f("item_outcome_is_known")),
        sa.CheckConstraint("why IS NULL OR outcome = 'left_alone'", name=op.f("only_what_is_left_alone_has_a_reason")),
        sa.CheckConstraint("(outcome IS NULL) = (done_at IS NULL)", name=op.f("an_item_that_is_done_knows_when")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_replay_items_job_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["replay_id"], ["replays.id"], name=op.f("fk_replay_items_replay_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("replay_id", "job_id", name=op.f("pk_replay_items")),
    )
    op.create_index("replay_items_of_a_job", "replay_items", ["job_id"], unique=False)
    op.create_index(
        "waiting_items_of_a_replay",
        "replay_items",
        ["replay_id", "position"],
        unique=False,
        postgresql_where=sa.text("outcome IS NULL"),
    )
    op.create_index(
        "failed_jobs_by_cause",
        "jobs",
        ["queue", "error_category", "error_code", "created_at"],
        postgresql_where=sa.text("state = 'failed'"),
    )
    op.execute(
        "CREATE FUNCTION refuse_to_change_the_past() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE EXCEPTION 'decisions are append only'; END$$"
    )
    op.execute(
        "CREATE TRIGGER decisions_are_append_only BEFORE UPDATE OR DELETE ON decisions "
        "FOR EACH ROW EXECUTE FUNCTION refuse_to_change_the_past()"
    )


def downgrade() -> None:
    op.drop_index("failed_jobs_by_cause", table_name="jobs", postgresql_where=sa.text("state = 'failed'"))
    op.drop_index("waiting_items_of_a_replay", table_name="replay_items", postgresql_where=sa.text("outcome IS NULL"))
    op.drop_index("replay_items_of_a_job", table_name="replay_items")
    op.drop_table("replay_items")
    op.drop_index("running_replays", table_name="replays", postgresql_where=sa.text("state = 'running'"))
    op.drop_index("replays_newest_first", table_name="replays")
    op.drop_table("replays")
    op.drop_table("gates")
    op.drop_index("decisions_of_a_queue", table_name="decisions")
    op.drop_table("decisions")
    op.execute("DROP FUNCTION refuse_to_change_the_past()")
