"""A job that waits at the AI service says so, and its log does not repeat each poll."""

from __future__ import annotations

import uuid

from tasks.database import Database
from tasks.ledger.calls import calls
from tasks.ledger.calls.calls import NewCall
from tasks.ledger.jobs import transitions
from tests.support import factories
from tests.web.conftest import Person, WebHarness

CALL = NewCall("summarise", "local", "openai", "m", 16, 60, background=True)


def test_the_page_says_that_the_service_works_on_it_and_lists_the_polls_once(
    ada: Person, bench: WebHarness, database: Database
) -> None:
    job = bench.job()
    for poll in range(3):
        with database.transaction() as session:
            factories.let_the_wait_be_over(session, job)
        claim = bench.claim(job)
        with database.transaction() as session:
            if poll == 0:
                call = calls.open_call(session, job, claim.generation, CALL)
                assert isinstance(call, uuid.UUID)
                calls.note_response(session, call, "resp_1", "local")
            transitions.release(session, claim, reason="waits_at_provider", interrupted=False, wait_seconds=2)
    page = ada.get(f"/jobs/{job}").text
    assert "The AI service is working on it." in page
    assert "Waiting for a free worker" not in page
    assert page.count("Sent to the AI service") == page.count("Attempt 1 of 3 started.") == 1
    assert "resp_1" not in page


def test_what_comes_after_the_wait_is_told(ada: Person, bench: WebHarness, database: Database) -> None:
    job = bench.job()
    for reason in ("no_place", "no_place", "shutdown"):
        with database.transaction() as session:
            factories.let_the_wait_be_over(session, job)
        claim = bench.claim(job)
        with database.transaction() as session:
            transitions.release(session, claim, reason=reason, interrupted=False)
    page = ada.get(f"/jobs/{job}").text
    assert page.count("our limit of parallel requests") == 1
    assert page.count("because the worker had to stop") == 1
