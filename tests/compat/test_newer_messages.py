"""Tests that messages of a newer release are left for it: no job is lost, and none is retried repeatedly."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import text

from tasks.ledger.states import State
from tasks.queue import DELIVER, DeliveryQueue, message_id
from tests.support import factories
from tests.support.site import Opened, Site

NEWER: dict[str, tuple[str, dict[str, Any]]] = {
    "another version": (DELIVER, {"v": 2, "delivery": 1}),
    "one more field": (DELIVER, {"v": 1, "delivery": 1, "priority": "high"}),
    "no version": (DELIVER, {"delivery": 1}),
    "a word for a version": (DELIVER, {"v": "two", "delivery": 1}),
    "another function": ("tasks.worker.deliver_soon", {"v": 1, "delivery": 1}),
    "a module that is not there": ("tasks.later.deliver", {"v": 1, "delivery": 1}),
}


def handed_over_by_newer_code(site: Site, queue: DeliveryQueue, function: str, fields: dict[str, Any]) -> uuid.UUID:
    """Create a job whose message was written by a newer release, and that is not due to be sent again for a while."""
    with site.database.transaction() as session:
        job_id = factories.submit(session, site.account_id, f"{function} {fields}. It is a text.".encode()).job_id
        session.execute(
            text("UPDATE deliveries SET due_at = now() + interval '1 hour', dispatched_at = now() WHERE job_id = :id"),
            {"id": job_id},
        )
    queue.rq.enqueue(function, kwargs={**fields, "job": job_id.hex}, job_id=message_id(job_id, 1))
    return job_id


@pytest.mark.crash
def test_newer_messages_are_parked_with_a_line_and_sent_again_in_this_version(
    site: Opened, queue: DeliveryQueue
) -> None:
    queue.mark_as_known()
    with site({"mode": "ok"}) as here:
        jobs = {name: handed_over_by_newer_code(here, queue, *message) for name, message in NEWER.items()}
        behind = here.submit(b"An ordinary text behind all of them.")
        here.wait_for(behind, State.SUCCEEDED)
        lines = [line for line in here.worker.log.splitlines() if "of_another_version" in line or "not_ours" in line]
        assert len(lines) == len(jobs), here.worker.log  # once for each, and never again
        for name, job_id in jobs.items():
            assert sum(job_id.hex in line for line in lines) == 1, (name, lines)
            assert here.view(job_id).state is State.QUEUED, name
        assert here.orphans() == 0
        assert len(here.fake.requests) == 1
        with here.database.transaction() as session:
            assert factories.count(session, "deliveries") == len(jobs)
            session.execute(text("UPDATE deliveries SET due_at = now()"))
        for job_id in jobs.values():
            here.wait_for(job_id, State.SUCCEEDED)
        assert here.results() == len(jobs) + 1
