"""Measures each page of the real app that is opened or polled often, as a signed-in user."""

from __future__ import annotations

import re
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, text
from sqlalchemy.orm import Session

from benchmarks import history
from benchmarks.plans import Explained, explained, heard
from tasks.ledger.delivery import gate, outbox
from tasks.ledger.jobs import stale
from tasks.ledger.replays import replays
from tasks.ledger.reports import job_views
from tasks.settings import Settings
from webapp import create_app
from webapp.auth.sessions import SESSION
from webapp.extensions import db

TIMES = 15
METRICS_TOKEN = "a token of the benchmark's own"
PAGES_DEEP = 40


@dataclass
class Measured:
    """Measurements of one page or query: the seconds of each try, and its statements.

    `busy` is the CPU time of this process per request, in seconds: the more reliable figure on a machine that others
    use, too.
    """

    name: str
    seconds: list[float]
    busy: float
    statements: list[Explained]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def worst(self) -> float:
        return max(self.seconds)

    @property
    def rows(self) -> int:
        """The number of rows of big tables that were read."""
        return sum(statement.rows for statement in self.statements)

    @property
    def scanned(self) -> list[str]:
        """The big tables that were read from end to end."""
        return [table for statement in self.statements for table in statement.scanned]


def measure(settings: Settings) -> list[Measured]:
    """Request everything, and then again with EXPLAIN."""
    app = create_app(settings)
    app.config["TESTING"] = True
    with app.app_context():
        engine = db.engine
    with engine.begin() as connection:
        known = history.known(connection)
        operator = workers_and_operator(connection, settings.queue_name, known.account_id)
    person, olga = signed_in(app, known.account_id.hex), signed_in(app, operator)
    measured = [one(engine, name, partial(get, who, path)) for name, who, path in asked(known, person, olga)]
    measured.append(one(engine, "metrics", partial(get, scraper(app), "/metrics")))
    measured += [one(engine, name, partial(in_session, engine, ask)) for name, ask in questions(settings).items()]
    engine.dispose()
    return measured


def workers_and_operator(connection: Connection, queue: str, person: uuid.UUID) -> str:
    """Add live workers, jobs that are not late yet, and an operator; return the operator's id.

    The operator and `person` are signed in.
    """
    run = connection.execute
    run(text("DELETE FROM workers"))
    run(text("UPDATE deliveries SET not_before = now() + interval '1 hour', due_at = now() + interval '1 hour'"))
    run(
        text(
            "INSERT INTO workers (name, queue, slots, seen_at) SELECT 'host-' || n || '-1', :queue, 16, "
            "now() + interval '1 hour' - CASE n WHEN 2 THEN interval '3 hours' ELSE interval '0' END "
            "FROM generate_series(0, 2) n"
        ),
        {"queue": queue},
    )
    run(
        text(
            "INSERT INTO accounts (id, email, password_hash, role) "
            "VALUES (gen_random_uuid(), 'operator@example.org', '-', 'operator') ON CONFLICT DO NOTHING"
        )
    )
    run(
        text(
            "INSERT INTO sessions (id, account_id, stamp) SELECT id, id, session_stamp FROM accounts "
            "WHERE id = :person OR role = 'operator' ON CONFLICT (id) DO UPDATE SET seen_at = now()"
        ),
        {"person": person},
    )
    return str(run(text("SELECT id FROM accounts WHERE role = 'operator'")).scalar_one().hex)


def signed_in(app: Flask, account: str) -> FlaskClient:
    """Return a browser that is signed in to this account."""
    client = app.test_client()
    with client.session_transaction() as session:
        session["_user_id"] = account
        session["_fresh"] = True
        session[SESSION] = account
    return client


def scraper(app: Flask) -> FlaskClient:
    """Return a client that reads the metrics like Prometheus."""
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {METRICS_TOKEN}"
    return client


def asked(known: history.Known, person: FlaskClient, olga: FlaskClient) -> Iterator[tuple[str, FlaskClient, str]]:
    """Return every page by name, with the client that requests it and its URL."""
    status = re.search(r'hx-get="([^"]+)"', get(person, f"/jobs/{known.waiting_job}"))
    assert status
    yield "home", person, "/"
    yield "job of its owner", person, f"/jobs/{known.saved_job}"
    yield "before deleting", person, f"/jobs/{known.saved_job}/delete"
    yield "status poll, changed", person, f"/jobs/{known.waiting_job}/status?rev=0"
    yield "status poll, unchanged (204)", person, status[1].replace("&amp;", "&")
    yield "readyz", person, "/readyz"
    yield "ops now", olga, "/ops"
    yield "ops now, fragment", olga, "/ops/now"
    yield "ops last 24 hours", olga, "/ops/day"
    yield "ops job", olga, f"/ops/jobs/{known.saved_job}"
    yield "ops job, waiting", olga, f"/ops/jobs/{known.waiting_job}"
    yield "ops work", olga, "/ops/work"
    yield "ops work, fragment", olga, "/ops/work/now"
    yield "ops replays", olga, "/ops/replays"
    yield "ops dry run of a cause", olga, "/ops/replays/new?category=auth"
    yield "ops decisions", olga, "/ops/decisions"
    yield "ops accounts", olga, "/ops/accounts"
    yield "ops accounts, searched, deep", olga, "/ops/accounts?q=person-&after=person-150@example.org"
    yield "ops account", olga, f"/ops/accounts/{known.account_id}"
    yield "ops search by id (redirect)", olga, f"/ops/jobs?q={known.saved_job}"
    for query in (
        "",
        "state=queued",
        "state=retry_wait",
        "state=succeeded",
        "state=failed",
        "state=cancel_requested",
        "category=auth",
        "category=quota&age=day",
        "workflow=questions_answered",
        "age=hour",
        "age=over-week",
        "age=over-hour&state=running",
        f"account={known.email}",
        f"account={known.email}&state=failed&category=auth",
        f"account={known.email}&workflow=questions_answered&state=cancelled",
        "state=cancelled&workflow=action_items",
        "state=succeeded&category=auth",
        "workflow=summary&state=failed&category=rate_limited&age=over-week",
    ):
        yield f"ops jobs ?{query}", olga, f"/ops/jobs?{query}"
        deep = deep_in(olga, query)
        if deep:
            yield f"ops jobs ?{query}, deep", olga, deep


def deep_in(client: FlaskClient, query: str) -> str | None:
    """Return the URL of a page deep in the list, found by following links; None if the list is shorter."""
    at: str | None = f"/ops/jobs?{query}"
    for _ in range(PAGES_DEEP):
        assert at is not None
        found = re.search(r'rel="next" href="([^"]+)"', get(client, at))
        if found is None:
            return None
        at = found[1].replace("&amp;", "&")
    return at


def questions(settings: Settings) -> dict[str, Callable[..., object]]:
    """Return the queries of loops and commands, which have no page."""
    queue = settings.queue_name
    return {
        "orphans": lambda session: job_views.orphans(session, renewal=settings.renewal, queue=queue),
        "jobs by state": job_views.jobs_by_state,
        "sweep: lost claims": lambda session: stale.lost_claims(
            session, queue=queue, limit=200, renewal=settings.renewal
        ),
        "sweep: past the deadline": lambda session: stale.waiting_past_deadline(session, queue=queue, limit=200),
        "sweep: owed nothing": lambda session: stale.waiting_without_delivery(session, queue=queue, limit=200),
        "claims: how many are active": lambda session: gate.active(session, queue),
        "replays: when the next is due": lambda session: replays.seconds_until_next(session, queue),
        "dispatcher: next due": lambda session: outbox.seconds_until_next_due(session, queue),
    }


def in_session(engine: Engine, question: Callable[..., object]) -> None:
    with Session(engine) as session:
        question(session)


def get(client: FlaskClient, path: str) -> str:
    """Request a page that must exist."""
    response = client.get(path)
    assert response.status_code in (200, 204, 303), (path, response.status_code, response.text)
    return response.text


def one(engine: Engine, name: str, ask: Callable[[], object]) -> Measured:
    """Run a query several times, after a warm-up that does not count; then inspect its plans."""
    ask()
    seconds, busy = [], time.process_time()
    for _ in range(TIMES):
        began = time.perf_counter()
        ask()
        seconds.append(time.perf_counter() - began)
    busy = (time.process_time() - busy) / TIMES
    with heard(engine) as statements:
        ask()
    with engine.connect() as connection:
        plans = [explained(connection, statement, history.BIG_TABLES) for statement in statements]
        connection.rollback()
    return Measured(name, seconds, busy, plans)
