"""Generates a site with years of history: any number of jobs in realistic states, written by the database itself.

Of a million jobs, 5,000 are from the last 24 hours and 300 are not finished. The others spread over 400 days.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sqlalchemy import Connection, text

MODEL = "gpt-5-mini"
PLAN = """
CREATE TEMP TABLE plan AS
SELECT n, gen_random_uuid() AS job, gen_random_uuid() AS document,
       (SELECT a.ids[1 + floor(200 * power(random(), 3) + 0 * n)::int] FROM owners a) AS account,
       CASE WHEN n <= :recent THEN now() - random() * interval '1 day'
            ELSE now() - interval '1 day' - random() * interval '400 days' END AS at,
       CASE WHEN n <= :unfinished THEN (CASE WHEN n % 30 = 0 THEN 'cancel_requested' WHEN n % 6 = 0 THEN 'running'
                                             WHEN n % 5 = 0 THEN 'retry_wait' ELSE 'queued' END)
            WHEN chance < 0.90 THEN 'succeeded' WHEN chance < 0.97 THEN 'failed' ELSE 'cancelled' END AS state,
       (ARRAY['rate_limited', 'overloaded', 'connection', 'timeout', 'uncertain', 'invalid_document', 'deadline',
              'content_policy', 'quota', 'auth'])[1 + floor(10 * power(random(), 2))::int] AS category,
       CASE WHEN n % 50 = 0 THEN 'questions_answered' WHEN n % 12 = 0 THEN 'action_items' ELSE 'summary' END
         AS workflow,
       (2 + random() * 60) * interval '1 second' AS waited, (5 + random() * 50) * interval '1 second' AS worked,
       n % 20 = 0 AS retried
FROM (SELECT n, random() AS chance FROM generate_series(1, :jobs) n) numbers
"""
ROWS = (
    """
INSERT INTO documents (id, account_id, fingerprint, filename, kind, size_bytes, content, created_at)
SELECT document, account, md5(n::text) || md5(job::text), 'document-' || n || '.txt', 'txt', 4000,
       CASE WHEN n <= :recent THEN convert_to(repeat(md5(n::text), 60), 'UTF8') END, at FROM plan
""",
    """
INSERT INTO jobs (id, account_id, document_id, queue, workflow, workflow_version, options, title, operation_key, state,
                  revision, generation, attempts, max_attempts, interruptions, deliveries, claimed_by, claimed_at,
                  lease_expires_at, reserved_until, next_attempt_at, deadline_at, step, progress_done, progress_total,
                  error_category, error_code, created_at, started_at, finished_at)
SELECT job, account, document, :queue, workflow, 1, '{"length": "medium"}', 'Document number ' || n,
       md5(job::text) || md5(n::text), state, 4, CASE WHEN state = 'queued' THEN 0 ELSE 1 + retried::int END,
       CASE WHEN state IN ('queued', 'running') THEN 0 ELSE 1 + retried::int END, 3, 0, 1 + retried::int,
       CASE WHEN held THEN 'host-' || n % 3 || '-1' END, CASE WHEN held THEN now() - worked END,
       CASE WHEN held THEN now() + interval '1 day' END, CASE WHEN held THEN now() + interval '2 days' END,
       CASE WHEN state = 'retry_wait' THEN now() + interval '1 day' END,
       CASE WHEN finished THEN at + interval '10 minutes' ELSE now() + interval '1 day' END, 'save', 1, 1,
       CASE WHEN state IN ('failed', 'retry_wait') THEN category END, NULL, at,
       CASE WHEN state <> 'queued' THEN at + waited END, CASE WHEN finished THEN at + waited + worked END
FROM (SELECT *, state IN ('running', 'cancel_requested') AS held,
             state IN ('succeeded', 'failed', 'cancelled') AS finished FROM plan) known
""",
    """
INSERT INTO submissions (account_id, idempotency_key, request_fingerprint, job_id, created_at)
SELECT account, job::text, md5(n::text), job, at FROM plan
""",
    """
INSERT INTO deliveries (job_id, queue, number, due_at, not_before, dispatched_at, dispatches)
SELECT job, :queue, 1, now() + interval '1 hour',
       CASE WHEN state = 'retry_wait' THEN now() + interval '1 day' ELSE now() - random() * interval '50 seconds' END,
       now(), 1
FROM plan WHERE state IN ('queued', 'retry_wait')
""",
    """
INSERT INTO attempts (job_id, generation, number, worker, started_at, ended_at, outcome, error_category)
SELECT job, generation, generation, 'host-' || n % 3 || '-1', at + waited + (generation - 1) * interval '1 minute',
       CASE WHEN ended THEN at + waited + worked * generation END,
       CASE WHEN NOT ended THEN NULL WHEN last AND state <> 'retry_wait' THEN state ELSE 'retry' END,
       CASE WHEN NOT last OR state IN ('failed', 'retry_wait') THEN category END
FROM (SELECT *, generation = 1 + retried::int AS last,
             NOT (generation = 1 + retried::int AND state IN ('running', 'cancel_requested')) AS ended
      FROM plan, LATERAL generate_series(1, 1 + retried::int) generation WHERE state <> 'queued') made
""",
    """
INSERT INTO provider_calls (id, job_id, generation, step, lane, provider, model, started_at, ended_at, outcome,
                            error_category, http_status, request_id, response_id, background, input_tokens,
                            output_tokens)
SELECT gen_random_uuid(), job_id, generation, 'summarise', :lane, 'openai', :model, started_at, ended_at,
       CASE WHEN ended_at IS NULL THEN 'open' WHEN outcome = 'succeeded' THEN 'succeeded'
            WHEN random() < 0.1 THEN 'unknown' ELSE 'failed' END,
       error_category, CASE WHEN outcome = 'succeeded' THEN 200 WHEN ended_at IS NOT NULL THEN 429 END,
       'req_' || md5(job_id::text), 'resp_' || md5(job_id::text), false,
       CASE WHEN outcome = 'succeeded' AND random() < 0.95 THEN 1000 END,
       CASE WHEN outcome = 'succeeded' THEN 200 END
FROM attempts
""",
    """
INSERT INTO checkpoints (job_id, step, generation, text, facts, created_at)
SELECT job, 'read', 1, repeat(md5(n::text), 8), '{"words": 300, "characters": 4000}', at + waited
FROM plan WHERE state IN ('succeeded', 'running')
""",
    """
INSERT INTO results (job_id, generation, text, facts, created_at)
SELECT job, 1, repeat(md5(n::text), 10), '{"model": "gpt-5-mini"}', at + waited + worked FROM plan
WHERE state = 'succeeded'
""",
    """
INSERT INTO events (job_id, at, event, state, generation, facts)
SELECT job, at + after, event, led_to, least(n, 1), facts::jsonb FROM (
  SELECT n, job, at, interval '0' AS after, 'record' AS event, 'queued' AS led_to, '{}' AS facts FROM plan
  UNION ALL SELECT n, job, at, waited, 'claim', 'running', '{"attempt": 1, "of": 3}' FROM plan WHERE state <> 'queued'
  UNION ALL SELECT n, job, at, waited * 2, 'retry_later', 'retry_wait', '{"category": "rate_limited"}'
            FROM plan WHERE retried AND state <> 'queued'
  UNION ALL SELECT n, job, at, waited * 2, 'release', 'queued', '{"reason": "shutdown"}' FROM plan WHERE n % 70 = 0
  UNION ALL SELECT n, job, at, waited + worked,
                   CASE state WHEN 'succeeded' THEN 'succeed' WHEN 'failed' THEN 'fail' ELSE 'cancel' END, state, '{}'
            FROM plan WHERE state IN ('succeeded', 'failed', 'cancelled')) told
""",
    """
INSERT INTO lanes (name, state, until, probing, strikes, category, changed_at)
VALUES (:lane, 'cooling', now() + interval '1 day', false, 1, 'rate_limited', now())
""",
)
OWNERS = """
INSERT INTO accounts (id, email, password_hash, role)
SELECT gen_random_uuid(), 'person-' || n || '@example.org', '-', 'user' FROM generate_series(1, 200) n
"""
BIG_TABLES = ("jobs", "documents", "submissions", "attempts", "provider_calls", "checkpoints", "results", "events")


@dataclass(frozen=True)
class Known:
    """Holds what the measurement asks for: the account with the most jobs, and one of its jobs in a state."""

    account_id: uuid.UUID
    email: str
    waiting_job: uuid.UUID
    saved_job: uuid.UUID


def write(connection: Connection, *, jobs: int, queue: str, trusted: bool = True) -> None:
    """Fill empty, migrated tables. `trusted` skips the foreign-key check of each row, which needs a superuser."""
    terms = {
        "jobs": jobs,
        "queue": queue,
        "recent": max(50, jobs // 200),
        "unfinished": min(300, max(30, jobs // 100)),
        "lane": f"{queue}:openai",
        "model": MODEL,
    }
    if trusted:
        connection.execute(text("SET LOCAL session_replication_role = replica"))
    connection.execute(text("SET LOCAL work_mem = '256MB'"))
    connection.execute(text(OWNERS))
    connection.execute(text("CREATE TEMP TABLE owners AS SELECT array_agg(id) AS ids FROM accounts"))
    for statement in (PLAN, *ROWS):
        connection.execute(text(statement), {name: value for name, value in terms.items() if f":{name}" in statement})
    connection.execute(text("DROP TABLE plan, owners"))


def known(connection: Connection) -> Known:
    """Return the account and the job that the measurement asks for."""
    account, email = connection.execute(
        text(
            "SELECT account_id, email FROM jobs JOIN accounts ON accounts.id = account_id "
            "WHERE state = 'queued' GROUP BY account_id, email ORDER BY count(*) DESC LIMIT 1"
        )
    ).one()
    one = "SELECT id FROM jobs WHERE account_id = :account AND state = :state LIMIT 1"
    waiting, saved = (
        connection.execute(text(one), {"account": account, "state": state}).scalar_one()
        for state in ("queued", "succeeded")
    )
    return Known(account, email, waiting, saved)
