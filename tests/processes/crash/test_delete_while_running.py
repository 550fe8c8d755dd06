"""Deleted documents are gone at once, and stay gone, even while a worker processes them."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tasks.ledger.jobs import deletion
from tasks.ledger.models import Base
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tests.support import factories
from tests.support.site import Opened, Site

OF_THE_ROW_OF_AN_ACCOUNT = {"accounts", "api_tokens", "sessions", "disabled_accounts"}
CONTENT = {table.name for table in Base.metadata.sorted_tables} - {*OF_THE_ROW_OF_AN_ACCOUNT, "workers", "lanes"}
COUNTED = {"accepted_jobs"}
"""Names the table that stays when a document is deleted: it counts an account's jobs and goes with the account."""


def left(here: Site, *, but: Collection[str] = ()) -> dict[str, int]:
    with here.database.transaction() as session:
        return {name: found for name in CONTENT.difference(but) if (found := factories.count(session, name))}


@pytest.mark.crash
@pytest.mark.parametrize("what", ["document", "account"])
def test_a_deletion_during_the_work_ends_it_quietly_and_nothing_comes_back(site: Opened, what: str) -> None:
    with site({"mode": "gate"}, {"mode": "ok"}, slots=2, LEASE_SECONDS=1, SWEEP_SECONDS=0.2) as here:
        job = here.submit()
        here.fake.wait_for_requests(1)
        document_id = here.view(job).document_id
        with here.database.transaction() as session:
            if what == "document":
                assert deletion.delete_document(session, document_id, here.account_id) == 1
            else:
                assert deletion.delete_account_content(session, here.account_id) == 1
        but = COUNTED if what == "document" else ()
        assert left(here, but=but) == {}
        here.fake.release()
        here.worker.wait_for_log("attempt.claim_lost")
        assert left(here, but=but) == {}
        with here.database.transaction() as session:
            stranger = factories.make_account(session)
            behind = factories.submit(session, stranger, b"somebody else's text").job_id
        here.wait_for(behind, State.SUCCEEDED)
        assert here.worker.popen.poll() is None


def test_nobody_deletes_somebody_elses_document(site: Opened) -> None:
    with site({"mode": "ok"}) as here:
        job = here.submit()
        here.wait_for(job, State.SUCCEEDED)
        with here.database.transaction() as session:
            stranger = factories.make_account(session)
            assert deletion.delete_document(session, here.view(job).document_id, stranger) is None
            assert job_views.result_of(session, job, here.account_id) is not None
