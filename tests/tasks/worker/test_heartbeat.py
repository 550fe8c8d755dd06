"""A worker is known to the site as soon as it starts."""

from __future__ import annotations

import threading

from tasks.database import Database
from tasks.ledger.reports import job_views
from tasks.settings import Settings
from tasks.worker.heartbeat import Heartbeat
from tests.support import factories


def test_the_first_beat_comes_at_once(database: Database, settings: Settings) -> None:
    stopping = threading.Event()
    stopping.set()  # it is stopped before it could have waited
    Heartbeat(database, settings, "a worker", 4).run(stopping)
    with database.transaction() as session:
        assert job_views.live_workers(session, queue=factories.QUEUE, seen_within_seconds=60) == 1
