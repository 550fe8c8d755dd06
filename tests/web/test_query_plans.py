"""Tests that no page that is opened or polled often reads a big table, or an index of one, from end to end.

The same is measured with a million jobs by `python -m benchmarks.million_jobs`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import Connection, Engine, text

from benchmarks import history, pages
from benchmarks.plans import Explained, Statement, explained, heard
from tasks.settings import Settings
from webapp.extensions import db

JOBS = 1500
MOST_ROWS = 600
"""The limit: a page reads the unfinished jobs, the last day, or one page of a list, of a few rows each; never all."""


@pytest.fixture
def engine(app: Flask, settings: Settings) -> Iterator[Engine]:
    """Return the app's engine, over a small history."""
    with app.app_context():
        engine = db.engine
    with engine.begin() as connection:
        history.write(connection, jobs=JOBS, queue=settings.queue_name, trusted=False)
        connection.execute(text("ANALYZE"))
    yield engine


def explain_all(connection: Connection, statements: list[Statement]) -> list[Explained]:
    connection.execute(text("SET LOCAL enable_seqscan = off"))  # a table this small is otherwise read whole
    return [explained(connection, statement, history.BIG_TABLES) for statement in statements]


def test_no_page_reads_it_all(app: Flask, engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.ledger.reports.job_search.MAX_CHECKED", 60)
    monkeypatch.setattr("webapp.ops.jobs.PAGE", 10)
    monkeypatch.setattr(pages, "PAGES_DEEP", 3)
    with engine.begin() as connection:
        known = history.known(connection)
        operator = pages.workers_and_operator(connection, settings.queue_name, known.account_id)
    person, olga = pages.signed_in(app, known.account_id.hex), pages.signed_in(app, operator)
    looked: dict[str, int] = {}
    sent: dict[str, list[Statement]] = {}
    with engine.connect() as connection:
        for name, who, path in pages.asked(known, person, olga):
            with heard(engine) as sent[name]:
                pages.get(who, path)
            plans = explain_all(connection, sent[name])
            assert [plan.lines for plan in plans if plan.scanned] == [], name
            looked[name] = sum(plan.rows for plan in plans)
        assert {name: rows for name, rows in looked.items() if rows > MOST_ROWS} == {}
        # Check that the test can fail: without its index, the list of one state reads all others.
        connection.execute(text("DROP INDEX jobs_in_a_state_newest_first, jobs_newest_first"))
        without = explain_all(connection, sent["ops jobs ?state=cancel_requested"])
        assert any(plan.scanned or plan.rows > MOST_ROWS for plan in without)
        connection.rollback()
