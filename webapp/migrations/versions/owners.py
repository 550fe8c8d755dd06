"""names of upload links"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "owners"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Links of before have no name, and neither have those that programs make without one.
    op.add_column("upload_links", sa.Column("name", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("upload_links", "name")
