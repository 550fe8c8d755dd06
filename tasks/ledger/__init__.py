"""The core: the tables of jobs, the rules by which a job changes, and the deliveries that are owed to jobs.

Plain SQLAlchemy, without queue and network. Every function takes a session and none commits, so the caller decides what
belongs to one transaction. All times are compared in PostgreSQL, by its clock.
"""

from __future__ import annotations
