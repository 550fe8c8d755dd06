"""The web process. Polls are short and pages are quick, so a few threads serve many people."""

from __future__ import annotations

import os
from typing import Any

bind = f"{os.environ.get('HOST', '0.0.0.0')}:{os.environ.get('PORT', '8000')}"
worker_class = "gthread"
workers = int(os.environ.get("WEB_CONCURRENCY") or 1)
threads = int(os.environ.get("WEB_THREADS") or 8)
timeout = 30
graceful_timeout = 20
keepalive = 75
max_requests = 10_000
max_requests_jitter = 1_000
control_socket_disable = True
accesslog = None
errorlog = "-"


def post_worker_init(worker: Any) -> None:
    """Let requests that wait for a job end when their process is told to stop."""
    worker.wsgi.extensions["waybill"].waits.stopping = lambda: not worker.alive
