"""Tests that a process may die before each of its statements, and that the answer to each COMMIT may get lost."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.explore.crashes import crash_everywhere, lose_every_answer
from tests.explore.search import Explorer

CRASHES: Mapping[str, str] = {
    "queued": "claim  dispatch  accept_third  accept_third_with_new_key  delete_account  cancel  begin_replay",
    "queued_lost": "dispatch  dispatch_after_flush  renumber",
    "queued_late": "sweep  show_late_job",
    "owed_nothing": "sweep",
    "running": """
        save_answer  succeed  retry_later  fail  release  open_call  close_call  close_rate_limited_call
        close_call_with_refused_key  delete_document  renew""",
    "requesting_in_background": "note_response",
    "running_expired": "sweep  show_late_job",
    "running_poisonous": "sweep",
    "running_before_stopped_lane": "release_behind_lane",
    "cancel_requested": "succeed  release",
    "put_back": "claim",
    "failed": "try_again  send_notifications  meet_gone_webhook",
    "failed_in_replay": "carry_on_replays",
    "succeeded_long_ago": "delete_content  sweep",
    "cancelled_in_background": "cancel_responses  delete_document",
    "lane_stopped": "claim",
    "parked": "open_lane",
}
EACH = [(state, operation) for state, operations in CRASHES.items() for operation in operations.split()]


@pytest.mark.parametrize(("state", "operation"), EACH)
def test_a_process_may_die_before_each_statement(explorer: Explorer, state: str, operation: str) -> None:
    report = crash_everywhere(explorer, state, operation)
    assert report.schedules > 1
    assert not report.findings, str(report)


@pytest.mark.parametrize(("state", "operation"), EACH)
def test_the_answer_to_each_commit_may_get_lost(explorer: Explorer, state: str, operation: str) -> None:
    report = lose_every_answer(explorer, state, operation)
    assert report.schedules > 1
    assert not report.findings, str(report)
