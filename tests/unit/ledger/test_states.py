"""The state machine of a job: each pair of event and state is either in the table, or forbidden."""

from __future__ import annotations

import itertools

import pytest

from tasks.ledger.states import HELD, TERMINAL, TRANSITIONS, UNFINISHED, Event, State, target

ALLOWED = {
    ("claim", "queued"): "running",
    ("claim", "retry_wait"): "running",
    ("renew", "running"): "running",
    ("renew", "cancel_requested"): "cancel_requested",
    ("checkpoint", "running"): "running",
    ("succeed", "running"): "succeeded",
    ("succeed", "cancel_requested"): "cancelled",
    ("retry_later", "running"): "retry_wait",
    ("retry_later", "cancel_requested"): "cancelled",
    ("fail", "running"): "failed",
    ("fail", "cancel_requested"): "cancelled",
    ("fail", "queued"): "failed",
    ("fail", "retry_wait"): "failed",
    ("release", "running"): "queued",
    ("release", "cancel_requested"): "cancelled",
    ("cancel", "queued"): "cancelled",
    ("cancel", "retry_wait"): "cancelled",
    ("cancel", "running"): "cancel_requested",
    ("expire", "running"): "retry_wait",
    ("expire", "cancel_requested"): "cancelled",
    ("replay", "failed"): "queued",
    **{("inspect", str(state)): str(state) for state in State},
}


@pytest.mark.parametrize(("event", "state"), list(itertools.product(Event, State)))
def test_each_event_leads_where_the_design_says_or_nowhere(event: Event, state: State) -> None:
    assert target(event, state) == ALLOWED.get((event, state))


def test_what_is_finished_stays_finished_unless_an_operator_or_the_owner_replays_it() -> None:
    leaving = {event for event, table in TRANSITIONS.items() if any(table.get(end, end) != end for end in TERMINAL)}
    assert leaving == {Event.REPLAY}


def test_every_unfinished_state_can_be_moved_on() -> None:
    for state in UNFINISHED:
        assert any(after != state for table in TRANSITIONS.values() if (after := table.get(state)))


def test_a_cancelled_job_never_ends_in_success() -> None:
    after_cancel = {table[State.CANCEL_REQUESTED] for table in TRANSITIONS.values() if State.CANCEL_REQUESTED in table}
    assert after_cancel == {State.CANCEL_REQUESTED, State.CANCELLED}


def test_only_the_expiry_or_the_holder_ends_a_claim() -> None:
    for event, table in TRANSITIONS.items():
        for before, after in table.items():
            if before in HELD and after not in HELD:
                assert event in {Event.SUCCEED, Event.RETRY_LATER, Event.FAIL, Event.RELEASE, Event.EXPIRE}
