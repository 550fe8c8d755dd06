"""Tests that a process may die before each of its statements, and that the answer to each COMMIT may get lost."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from _pytest.mark.structures import ParameterSet

from tests.explore.crashes import crash_everywhere, lose_every_answer
from tests.explore.search import Explorer

CRASHES: Mapping[str, str] = {
    "queued": "claim  dispatch  accept_third_with_new_key  delete_account",
    "queued_lost": "renumber",
    "queued_late": "show_late_job",
    "running": "save_answer  succeed  retry_later  release  open_call  close_rate_limited_call",
    "requesting_in_background": "note_response",
    "running_expired": "sweep",
    "running_before_stopped_lane": "release_behind_lane",
    "cancel_requested": "succeed",
    "failed": "try_again  send_notifications",
    "succeeded_long_ago": "delete_content",
    "cancelled_in_background": "cancel_responses  delete_document",
    "parked": "open_lane",
}
THOROUGH_CRASHES: Mapping[str, str] = {
    "queued": "accept_third  cancel  begin_replay",
    "queued_lost": "dispatch  dispatch_after_flush",
    "queued_late": "sweep",
    "owed_nothing": "sweep",
    "running": "fail  close_call  close_call_with_refused_key  delete_document  renew",
    "running_expired": "show_late_job",
    "running_poisonous": "sweep",
    "cancel_requested": "release",
    "put_back": "claim",
    "failed": "meet_gone_webhook",
    "failed_in_replay": "carry_on_replays",
    "succeeded_long_ago": "sweep",
    "lane_stopped": "claim",
}


def each_of(crashes: Mapping[str, str], *marks: pytest.MarkDecorator) -> list[ParameterSet]:
    return [
        pytest.param(state, operation, marks=marks)
        for state, operations in crashes.items()
        for operation in operations.split()
    ]


EACH = [*each_of(CRASHES), *each_of(THOROUGH_CRASHES, pytest.mark.thorough)]


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
