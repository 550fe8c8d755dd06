"""All rows that anybody can see, read with one statement, and a key by which two ends can be compared."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, text

from tests.explore.world import World

Row = dict[str, Any]
UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


def _when(column: str) -> str:
    """Return SQL that says roughly how far ahead a time lies, since no two runs have the same times."""
    return (
        f"CASE WHEN {column} <= clock_timestamp() + interval '5 s' THEN 'now' "
        f"WHEN {column} <= clock_timestamp() + interval '250 s' THEN 'later' WHEN {column} IS NOT NULL THEN 'far' END"
    )


QUERIES = {
    "jobs": "SELECT id, operation_key, state, generation, attempts, max_attempts, interruptions, suspicions, step,"
    f" deliveries, error_category, error_code, {_when('next_attempt_at')} AS next_attempt, claimed_by, document_id,"
    f" {_when('deadline_at')} AS deadline, {_when('lease_expires_at')} AS lease, email_when_done,"
    " content_deleted_at IS NOT NULL AS closed FROM jobs ORDER BY created_at, id",
    "deliveries": "SELECT job_id, number, dispatches, dispatched_at IS NOT NULL AS sent, lane,"
    f" {_when('not_before')} AS not_before, {_when('due_at')} AS due FROM deliveries ORDER BY job_id",
    "attempts": "SELECT job_id, generation, number, worker, outcome, error_category FROM attempts ORDER BY 1, 2",
    "calls": "SELECT id, job_id, generation, step, outcome, response_id, background, input_tokens, output_tokens,"
    " error_code FROM provider_calls ORDER BY job_id, generation, step, started_at",
    "results": "SELECT job_id, generation, text FROM results ORDER BY 1",
    "checkpoints": "SELECT job_id, step, generation, text FROM checkpoints ORDER BY 1, 2",
    "events": "SELECT job_id, event, state, generation FROM events ORDER BY job_id, id",
    "lanes": f"SELECT name, state, probing, strikes, category, {_when('until')} AS until FROM lanes ORDER BY name",
    "gates": "SELECT dispatch_stopped, claims_stopped, at_once FROM gates",
    "documents": "SELECT id, content IS NOT NULL AS kept FROM documents ORDER BY fingerprint",
    "submissions": "SELECT idempotency_key, job_id FROM submissions ORDER BY 1",
    "notices": "SELECT job_id, channel, what, key, tries, sent_at IS NOT NULL AS sent,"
    " gave_up_at IS NOT NULL AS gave_up FROM notices ORDER BY key",
    "left_responses": "SELECT response_id FROM left_responses ORDER BY 1",
    "accepted_jobs": "SELECT job_id FROM accepted_jobs ORDER BY 1",
    "tokens": "SELECT tokens FROM tokens_of_months",
    "replays": "SELECT id, state, ended_because FROM replays ORDER BY created_at",
    "replay_items": "SELECT job_id, outcome, why FROM replay_items ORDER BY job_id, replay_id",
    "preferences": "SELECT email, webhook_url FROM notice_wishes",
    "accounts": "SELECT id FROM accounts",
    "account_limits": "SELECT jobs_at_once FROM account_limits",
    "disabled": "SELECT account_id FROM disabled_accounts",
}
ALL_ROWS = text(
    "SELECT json_build_object("
    + ", ".join(f"'{name}', (SELECT coalesce(json_agg(x), '[]') FROM ({query}) x)" for name, query in QUERIES.items())
    + ")"
)
UNSEEN = {"jobs": ("operation_key", "deliveries"), "deliveries": ("number",), "notices": ("key",)}
"""Name the columns that nobody sees, and that may differ between two ends that are otherwise the same."""


class Snapshot:
    """The rows of all tables, by table."""

    def __init__(self, rows: dict[str, list[Row]]) -> None:
        self.rows = rows

    def __getitem__(self, table: str) -> list[Row]:
        return self.rows[table]

    def by_job(self, table: str) -> dict[str, list[Row]]:
        """Return the rows of a table by the id of their job, in their order."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows[table]:
            found[row["job_id"]].append(row)
        return found

    def key(self, world: World) -> str:
        """Return a text that is the same for each end that a person would call the same."""
        rows = {
            table: [{column: row[column] for column in row if column not in UNSEEN.get(table, ())} for row in found]
            for table, found in self.rows.items()
        }
        said = json.dumps(rows, sort_keys=True)
        names = {world.job: "job", world.other: "other", world.document: "document", world.call: "call"}
        names[world.late_call] = "late call"
        for known, name in names.items():
            said = said if known is None else said.replace(str(known), name)
        named: dict[str, list[Row]] = json.loads(UUID.sub("new", said))
        for table, found in named.items():
            # The order of the events counts within a job; that of other rows does not count.
            found.sort(key=(lambda row: str(row["job_id"])) if table == "events" else json.dumps)
        return json.dumps(named, sort_keys=True)


def take_snapshot(connection: Connection) -> Snapshot:
    """Return all rows as they are now."""
    return Snapshot(connection.execute(ALL_ROWS).scalar_one())
