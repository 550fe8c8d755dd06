"""The pairs that the tests explore: operations that touch the same rows, in the start states where they meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Pair = tuple[str, str, str]

PAIRS: Mapping[str, str] = {
    "queued": """
        claim|claim  claim|cancel  accept_third|accept_fourth  accept_third|set_limits  accept_same|delete_document
        accept_third|delete_account""",
    "queued_sent": "claim|delete_document  claim|pause  claim|drain  claim|disable_account",
    "queued_lost": """
        renumber|bring_all_forward  renumber|claim  renumber|cancel  dispatch|cancel
        dispatch|reschedule""",
    "queued_late": "claim|end_at_deadline  cancel|end_at_deadline",
    "owed_nothing": "owe_waiting|owe_waiting  owe_waiting|cancel  owe_waiting|delete_document",
    "retry_due": "late_fail|cancel  claim|claim",
    "running": """
        succeed|cancel  succeed|expire  succeed|renew  succeed|delete_document  save_answer|delete_document
        open_call|cancel  open_call|open_call  retry_later|cancel  fail|cancel
        close_call|delete_document""",
    "requesting_in_background": "note_response|delete_document  note_response|expire",
    "running_expired": """
        expire|renew  expire|succeed  expire|expire  expire|save_answer  expire|open_call  expire|release
        expire|retry_later""",
    "running_poisonous": "sweep|succeed  sweep|fail  sweep|delete_document  claim|release",
    "cancel_requested": "succeed|accept_same  open_call|release",
    "taken_over": "late_succeed|succeed  late_release|retry_later  late_fail|cancel",
    "taken_back": "late_succeed|claim  late_retry_later|claim  late_fail|cancel",
    "put_back": "late_succeed|claim  late_fail|claim  late_release|claim  late_open_call|claim  late_fail|cancel",
    "put_back_by_its_holder": "late_fail|claim  late_succeed|claim  late_fail|cancel",
    "put_back_and_claimed": "late_succeed|succeed  late_fail|retry_later",
    "succeeded_long_ago": "delete_content|accept_again  delete_content|delete_document",
    "failed": """
        try_again|begin_replay  try_again|send_notifications  try_again|delete_document
        begin_replay|delete_document""",
    "failed_long_ago": "delete_content|try_again",
    "cancelled": "accept_same|accept_same_with_new_key  meet_gone_webhook|delete_account",
    "lane_stopped": "claim|open_lane",
    "parked": "open_lane|cancel  open_lane|dispatch  open_lane|delete_document",
    "running_before_stopped_lane": "release_behind_lane|open_lane  open_call|open_lane",
    "running_before_cooling_lane": """
        close_call_with_server_error|claim_other  close_rate_limited_call|open_lane
        save_answer|close_call_with_refused_key""",
    "one_at_once": "claim|claim_other  claim|resume",
    "drained": "claim|resume",
}
THOROUGH_PAIRS: Mapping[str, str] = {
    "queued": "dispatch|dispatch  accept_same_with_new_key|accept_third_with_new_key",
    "queued_lost": "dispatch|dispatch  dispatch|renumber  dispatch_after_flush|claim  dispatch|claim",
    "queued_late": "sweep|show_late_job",
    "running": "sweep|sweep  release|delete_account",
    "running_expired": "show_late_job|renew  sweep|retry_later  sweep|sweep",
    "taken_over": "late_save_answer|save_answer",
    "running_late": "sweep|succeed  sweep|show_late_job",
    "running_poisonous": "sweep|cancel  sweep|delete_account",
    "failed": "begin_replay|begin_replay",
    "failed_long_ago": "delete_content|begin_replay",
    "failed_in_replay": "carry_on_replays|cancel  carry_on_replays|try_again  carry_on_replays|carry_on_replays",
    "lane_stopped": "claim|claim_other",
    "cancelled_in_background": "cancel_responses|delete_document  cancel_responses|note_response",
}


def read_pairs(pairs: Mapping[str, str]) -> Iterator[Pair]:
    """Yield the start state and the two operations of each pair."""
    for state, lines in pairs.items():
        for pair in lines.split():
            first, second = pair.split("|")
            yield state, first, second
