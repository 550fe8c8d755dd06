"""invitations, sign-in services, and what ends sessions"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("accounts", sa.Column("email_proven_at", sa.DateTime(timezone=True), nullable=True))
    # The version that runs during the release makes sessions without a stamp. They count as stamped with 0.
    op.add_column("accounts", sa.Column("session_stamp", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("accounts", sa.Column("exporting_until", sa.DateTime(timezone=True), nullable=True))
    op.create_table(
        "invitations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("made_by", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invitations")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_invitations_token_hash")),
    )
    op.create_index("invitations_newest_first", "invitations", [sa.text("created_at DESC"), "id"])
    op.create_table(
        "identities",
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_identities_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_identities")),
    )
    op.create_index("identities_of_an_account", "identities", ["account_id"])


def downgrade() -> None:
    op.drop_table("identities")
    op.drop_table("invitations")
    op.drop_column("accounts", "exporting_until")
    op.drop_column("accounts", "session_stamp")
    op.drop_column("accounts", "email_proven_at")
