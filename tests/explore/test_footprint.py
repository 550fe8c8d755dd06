"""Tests what the explorer reads from statements: an order that it wrongly leaves out would hide a fault."""

from __future__ import annotations

import pytest

from tests.explore.footprint import Footprint, Lock, independent, read_footprint, with_foreign_keys


def locks(statement: str) -> dict[str, set[Lock]]:
    return {table: set(modes) for table, modes in read_footprint(statement, {}).locks.items()}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT jobs.attempts FROM jobs WHERE jobs.id = 1", {}),
        ("SELECT jobs.id FROM jobs FOR UPDATE", {"jobs": {Lock.UPDATE}}),
        ("SELECT jobs.id FROM jobs, documents FOR KEY SHARE OF jobs", {"jobs": {Lock.KEY_SHARE}}),
        ("SELECT jobs.id FROM jobs FOR NO KEY UPDATE SKIP LOCKED", {"jobs": {Lock.NO_KEY_UPDATE}}),
        ("UPDATE jobs SET attempts=(jobs.attempts + 1)", {"jobs": {Lock.NO_KEY_UPDATE}}),
        ("INSERT INTO events (job_id, event) VALUES (1, 2)", {"jobs": {Lock.KEY_SHARE}}),
        (
            "INSERT INTO deliveries (job_id) VALUES (1) ON CONFLICT (job_id) DO UPDATE SET number = 1",
            {"deliveries": {Lock.INSERT, Lock.NO_KEY_UPDATE}, "jobs": {Lock.KEY_SHARE}},
        ),
    ],
)
def test_locks_are_read_from_a_statement(statement: str, expected: dict[str, set[Lock]]) -> None:
    assert locks(statement) == expected


def test_a_delete_locks_what_is_deleted_along() -> None:
    found = locks("DELETE FROM jobs WHERE jobs.id = 1")
    assert {"jobs", "deliveries", "results", "provider_calls"} <= {name for name in found if Lock.UPDATE in found[name]}
    assert Lock.KEY_SHARE in locks("DELETE FROM documents")["jobs"], "the server looks for jobs about the document"


def test_the_second_update_of_a_row_locks_what_it_refers_to() -> None:
    update = read_footprint("UPDATE jobs SET deliveries=1", {})
    assert "documents" not in update.locks
    assert with_foreign_keys(update, update).locks["documents"] == {Lock.KEY_SHARE}


def test_advisory_locks_are_told_apart_by_their_names() -> None:
    statement = "SELECT pg_advisory_xact_lock(hashtext(%(name)s))"
    gate, places = (read_footprint(statement, {"name": name}) for name in ("gate q", "places q"))
    assert independent(gate, places)
    assert not independent(gate, gate)
    shared = read_footprint(statement.replace("lock(", "lock_shared("), {"name": "gate q"})
    assert independent(shared, shared)
    assert not independent(gate, shared)


def test_only_a_commit_shows_what_was_written() -> None:
    read = read_footprint("SELECT jobs.id FROM jobs", {})
    update = read_footprint("UPDATE jobs SET step='read'", {})
    commit = Footprint("COMMIT", writes=update.writes, commit=True)
    assert independent(read, update)
    assert not independent(read, commit)
    assert independent(commit, commit)
