"""The core: what a job is, who may change it, and what is owed to it. Plain SQLAlchemy, no queue, no network.

Every function takes a session and none commits: the caller says what one transaction is. PostgreSQL's clock decides.
"""

from __future__ import annotations
