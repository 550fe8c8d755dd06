"""Named moments at which a test kills the process or holds a thread, to prove that nothing is lost there.

In production the variables are not set and `reached` compares strings.
"""

from __future__ import annotations

import os
import signal
import threading

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
BACKGROUND_POINTS = (
    "worker.response_started",  # the provider took the request, its name for it is not saved
    "worker.response_saved",  # from here on the provider can be asked about it
)
NOTICE_POINTS = (
    "notices.taken",  # postponed, not sent
    "notices.sent",  # the receiver has it, the row does not know
)
_die_at = os.environ.get("WAYBILL_DIE_AT")
_stall_at = os.environ.get("WAYBILL_STALL_AT")
_hang_at = os.environ.get("WAYBILL_HANG_AT")


def fault_point(point: str) -> None:
    """This moment has come."""
    if point == _die_at:
        os.kill(os.getpid(), signal.SIGKILL)
    if point == _stall_at:
        while True:  # what Python code that never ends looks like: an exception can still be set in its thread
            threading.Event().wait(0.05)
    if point == _hang_at:
        threading.Event().wait()  # what a call into C that never returns looks like: nothing reaches this thread
