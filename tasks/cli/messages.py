"""The texts about operators' decisions, for the command line and the operators' pages."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping, Sequence

from tasks.ledger.delivery.gate import GateState
from tasks.ledger.models.control import Cause, Decided
from tasks.ledger.replays import selection
from tasks.ledger.replays.progress import Progress
from tasks.ledger.replays.selection import Group

LONGEST_NOTE = 500

CAUSES: Mapping[Cause, str] = {
    Cause.CAUSE_FIXED: "what was wrong here has been put right",
    Cause.PROVIDER_RECOVERED: "the AI service works again",
    Cause.CREDENTIALS_RENEWED: "key, budget or permission at the AI service has been put right",
    Cause.MISTAKE: "it should not have failed",
    Cause.OTHER: "something else, see the note",
}

LEFT_ALONE: Mapping[str, str] = {
    selection.WAITING: "already waiting for a worker",
    selection.RUNNING: "already running",
    selection.FINISHED: "already finished, its result is saved",
    selection.CANCELLED: "cancelled by its owner",
    selection.DOCUMENT_DELETED: "its document has been deleted",
    selection.IN_ANOTHER_REPLAY: "another replay has it in turn",
}

DECIDED: Mapping[Decided, str] = {
    Decided.PAUSE: "paused the work",
    Decided.DRAIN: "stopped claims, to drain",
    Decided.RESUME: "resumed the work",
    Decided.OPEN_LANE: "opened the lane",
    Decided.REPLAY: "replayed failed work",
    Decided.STOP_REPLAY: "stopped a replay",
    Decided.SET_LIMITS: "changed the limits of an account",
    Decided.DISABLE_ACCOUNT: "disabled an account",
    Decided.ENABLE_ACCOUNT: "enabled an account",
    Decided.REVOKE_TOKENS: "revoked the API tokens of an account",
    Decided.PROMOTE: "made an account an operator’s",
    Decided.DEMOTE: "took the operator’s role from an account",
}

HELD_UP: Mapping[str, str] = {
    "paused": "It waits until the work is resumed.",
    "lane_stopped": "It waits until the lane to the AI service is opened.",
}

ENDED_BECAUSE: Mapping[str, str] = {
    "done": "done",
    "operator": "stopped by an operator",
    "same_failure": "stopped by itself: a replayed job failed again of the same cause",
}


def command_line_user() -> str:
    """Return the name of the command line's user, as audit log and job events show it."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (OSError, KeyError):  # a container may run under a user id without a name
        return f"user {os.getuid()} (command line)"


def gate_in_words(gate: GateState) -> str:
    """Return a sentence about the state of the gate."""
    limit = "" if gate.at_once is None else f", at most {gate.at_once} at once"
    text = {
        "open": "open",
        "limited": f"open{limit}",
        "paused": "paused: nothing more is handed to the queue",
        "draining": "stopped: nothing more is handed to the queue, and no attempt begins",
    }[gate.mode]
    if gate.changed_at is None:
        return text
    note = f" ({gate.note})" if gate.note else ""
    return f"{text}, since {gate.changed_at:%F %T} UTC by {gate.changed_by}{note}"


def groups_in_words(groups: Sequence[Group], *, would: bool) -> list[str]:
    """Return lines about what a replay does, or would do, with the jobs of each category."""
    lines = []
    for group in groups:
        counted = "1 job" if group.jobs == 1 else f"{group.jobs} jobs, the oldest"
        lines.append(f"{group.category or 'not failed'}: {counted} from {group.oldest:%F %T} UTC")
        if group.replayed:
            lines.append(f"  {'would be replayed' if would else 'to be replayed'}: {group.replayed}")
        lines += [f"  left alone, {LEFT_ALONE[why]}: {count}" for why, count in sorted(group.left_alone.items())]
    return lines


def progress_in_words(progress: Progress) -> str:
    """Return a line about the progress of a replay."""
    replay = progress.replay
    ended = "running" if replay.ended_because is None else ENDED_BECAUSE[replay.ended_because]
    return (
        f"{replay.id.hex[:8]}  {replay.created_at:%F %T}  {replay.by}: {replay.cause} ({replay.note})  "
        f"{progress.replayed} of {progress.jobs - progress.left_alone} replayed, {progress.succeeded} succeeded, "
        f"{progress.failed_again} failed again, {progress.left_alone} left alone; {ended}"
    )
