"""Named points at which a test kills the process or holds a thread, to prove that nothing is lost there.

In production the variables are not set, and `fault_point` only compares strings.
"""

from __future__ import annotations

import os
import signal
import threading

POINTS = (
    "dispatcher.taken",  # postponed, not sent
    "dispatcher.sent",  # in the queue, not yet noted in the row
    "dispatcher.noted",
    "worker.received",  # taken out of the queue, not claimed
    "worker.claimed",
    "worker.read",  # the document is read, its text is not saved
    "worker.read_saved",
    "worker.call_recorded",  # the row of the call is written, the request is not sent
    "worker.answered",  # the provider has answered and billed, nothing is saved
    "worker.answer_saved",
    "worker.before_commit",  # result and state are written, but not committed
    "worker.succeeded",
)
BACKGROUND_POINTS = (
    "worker.response_started",  # the provider accepted the request, the response id is not saved
    "worker.response_saved",  # from here on the response can be polled
)
NOTICE_POINTS = (
    "notices.taken",  # postponed, not sent
    "notices.sent",  # the receiver has it, the row does not say so yet
)
_die_at = os.environ.get("WAYBILL_DIE_AT")
_stall_at = os.environ.get("WAYBILL_STALL_AT")
_hang_at = os.environ.get("WAYBILL_HANG_AT")


def fault_point(point: str) -> None:
    """Die, stall or hang here if the test has set this point; otherwise do nothing."""
    if point == _die_at:
        os.kill(os.getpid(), signal.SIGKILL)
    if point == _stall_at:
        while True:  # like Python code that never ends: an exception can still be raised in its thread
            threading.Event().wait(0.05)
    if point == _hang_at:
        threading.Event().wait()  # like a call into C that never returns: no exception reaches this thread
