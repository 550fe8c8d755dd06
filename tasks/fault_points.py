"""Named moments at which a test kills the process, to prove that nothing is lost there.

In production the variable is not set and `reached` compares two strings.
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "dispatcher.taken",  # postponed, not sent
    "dispatcher.sent",  # the queue has it, the row does not know
    "dispatcher.noted",
    "worker.received",  # out of the queue, not claimed
    "worker.claimed",
    "worker.read",  # the document is read, nothing is saved
    "worker.read_saved",
    "worker.call_recorded",  # the row of the call is there, the request is not sent
    "worker.answered",  # the provider was paid, nothing is saved
    "worker.answer_saved",
    "worker.before_commit",  # result and state are written, not committed
    "worker.succeeded",
)
_die_at = os.environ.get("WAYBILL_DIE_AT")


def reached(point: str) -> None:
    """This moment has come."""
    if point == _die_at:
        os.kill(os.getpid(), signal.SIGKILL)
