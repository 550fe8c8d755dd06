"""sessions that the site knows, accounts that are disabled, and what operators decide about accounts"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("stamp", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_sessions_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index("sessions_of_an_account", "sessions", ["account_id", "seen_at"], unique=False)
    op.create_index("sessions_longest_unseen", "sessions", ["seen_at"], unique=False)
    op.create_table(
        "disabled_accounts",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("disabled_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_disabled_accounts_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_disabled_accounts")),
    )
    op.drop_constraint(op.f("decision_is_known"), "decisions", type_="check")
    op.create_check_constraint(
        op.f("decision_is_known"),
        "decisions",
        "what IN ('demote', 'disable_account', 'drain', 'enable_account', 'open_lane', 'pause', 'promote', 'replay', "
        "'resume', 'revoke_tokens', 'set_limits', 'stop_replay')",
    )
    # Now that several decisions are about an account, the index is of all that name one.
    op.drop_index("decisions_about_an_account", table_name="decisions")
    op.create_index(
        "decisions_about_an_account",
        "decisions",
        [sa.text("(facts ->> 'account')"), "id"],
    )


def downgrade() -> None:
    # The rule about decisions stays as wide as it is: the record of them is never changed.
    op.drop_index("decisions_about_an_account", table_name="decisions")
    op.create_index(
        "decisions_about_an_account",
        "decisions",
        [sa.text("(facts ->> 'account')"), "id"],
        postgresql_where=sa.text("what = 'set_limits'"),
    )
    op.drop_table("disabled_accounts")
    op.drop_table("sessions")
