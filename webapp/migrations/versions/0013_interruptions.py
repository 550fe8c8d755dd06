"""workers whose end is seen, claims that could not be renewed, jobs that may end workers, and the alert of a long wait"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("backend_pid", sa.Integer(), nullable=True))
    op.add_column("workers", sa.Column("backend_started_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column(
        "workers",
        sa.Column("unrenewed", postgresql.ARRAY(sa.Uuid()), server_default=sa.text("'{}'"), nullable=False),
    )
    op.add_column(
        "workers",
        sa.Column("steady_since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
    )
    _replace_alert_kinds("'failures', 'lane_cooling', 'lane_stopped', 'orphans', 'queue_age'")
    op.add_column("jobs", sa.Column("suspicions", sa.Integer(), server_default=sa.text("0"), nullable=False))


def downgrade() -> None:
    op.execute("DELETE FROM alerts WHERE kind = 'lane_cooling'")
    _replace_alert_kinds("'failures', 'lane_stopped', 'orphans', 'queue_age'")
    op.drop_column("jobs", "suspicions")
    op.drop_column("workers", "steady_since")
    op.drop_column("workers", "unrenewed")
    op.drop_column("workers", "backend_started_at")
    op.drop_column("workers", "backend_pid")


def _replace_alert_kinds(kinds: str) -> None:
    name = op.f("alert_kind_is_known")
    op.drop_constraint(name, "alerts", type_="check")
    op.create_check_constraint(name, "alerts", f"kind IN ({kinds})")
