"""names of upload links, accounts on the operator's pages, and webhooks whose receiver is gone"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Links of before have no name, and neither have those that programs make without one.
    op.add_column("upload_links", sa.Column("name", sa.Text(), nullable=True))
    op.add_column("notice_wishes", sa.Column("webhook_gone_url", sa.Text(), nullable=True))
    op.add_column("notice_wishes", sa.Column("webhook_gone_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index("accounts_by_address", "accounts", ["email"], postgresql_ops={"email": "text_pattern_ops"})
    op.drop_constraint(op.f("decision_is_known"), "decisions", type_="check")
    op.create_check_constraint(
        op.f("decision_is_known"),
        "decisions",
        "what IN ('drain', 'open_lane', 'pause', 'replay', 'resume', 'set_limits', 'stop_replay')",
    )
    op.create_index(
        "decisions_about_an_account",
        "decisions",
        [sa.text("(facts ->> 'account')"), "id"],
        postgresql_where=sa.text("what = 'set_limits'"),
    )


def downgrade() -> None:
    # The rule about decisions stays as wide as it is: the record of them is never changed.
    op.drop_index("decisions_about_an_account", table_name="decisions")
    op.drop_index("accounts_by_address", table_name="accounts")
    op.drop_column("notice_wishes", "webhook_gone_at")
    op.drop_column("notice_wishes", "webhook_gone_url")
    op.drop_column("upload_links", "name")
