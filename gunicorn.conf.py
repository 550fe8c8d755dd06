"""The web process. Polls are short and pages are quick, so a few threads serve many people."""

from __future__ import annotations

import os

bind = f"{os.environ.get('HOST', '0.0.0.0')}:{os.environ.get('PORT', '8000')}"
worker_class = "gthread"
workers = int(os.environ.get("WEB_CONCURRENCY") or 1)
threads = int(os.environ.get("WEB_THREADS") or 8)
timeout = 30
graceful_timeout = max(1, min(20, int(float(os.environ.get("SHUTDOWN_GRACE_SECONDS") or 25)) - 5))
keepalive = 75
max_requests = 10_000
max_requests_jitter = 1_000
control_socket_disable = True
accesslog = None  # query strings stay out of the log; the host's router keeps a log of its own
errorlog = "-"
