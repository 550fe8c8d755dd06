"""The worker: one RQ worker with many slots. An AI call is waiting, not computing, so one process makes many at once.

RQ's SimpleWorker dequeues while a slot is free and enforces the outer timeout; each delivery runs in a thread. The
database, provider loop, intake and heartbeat that the threads share belong to the process: `tasks.worker.process`.
"""

from __future__ import annotations

from tasks.worker.delivery_handler import deliver

__all__ = ["deliver"]  # messages in Redis name this function: `tasks.queue.DELIVER`
