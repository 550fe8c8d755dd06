from __future__ import annotations

import uuid

from tasks.database import Database
from tasks.ledger import queries
from tasks.ledger.states import State
from tasks.ledger.transitions import Claim, claim, succeed
from tests.support import house


def test_a_job_goes_from_recorded_to_saved(database: Database, account_id: uuid.UUID) -> None:
    with database.transaction() as session:
        job_id = house.submit(session, account_id).job_id
    with database.transaction() as session:
        held = claim(session, job_id, worker="w", lease_seconds=15, reservation_seconds=120)
        assert isinstance(held, Claim)
    with database.transaction() as session:
        assert succeed(session, held, text="A pier is closed.", facts={}) is State.SUCCEEDED
    with database.transaction() as session:
        view = queries.job_of(session, job_id, account_id)
        assert view is not None
        assert view.state is State.SUCCEEDED
        assert queries.orphans(session, grace_seconds=0) == 0
