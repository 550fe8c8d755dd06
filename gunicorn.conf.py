"""The web process. Polls are short and pages are quick, so a few threads serve many people."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from gunicorn.workers.base import Worker


class BufferingWorker(Worker):
    """Serves by `webapp.server`, where slow clients cost no thread.

    It is imported in the worker alone: gunicorn's first process loads nothing of the app and stays small.
    """

    limits: ClassVar[Mapping[str, float]] = {}
    """Values that replace those of `webapp.server.limits.Limits`, for tests."""

    def run(self) -> None:
        """The worker's main loop."""
        from webapp.server.limits import Limits
        from webapp.server.server import serve

        serve(self, Limits(**self.limits))


host, port = os.environ.get("HOST") or "0.0.0.0", os.environ.get("PORT") or "8000"
bind = f"[{host}]:{port}" if ":" in host and "[" not in host else f"{host}:{port}"
worker_class = BufferingWorker
workers = int(os.environ.get("WEB_CONCURRENCY") or 1)
threads = int(os.environ.get("WEB_THREADS") or 8)
timeout = 30
graceful_timeout = max(1, min(20, int(float(os.environ.get("SHUTDOWN_GRACE_SECONDS") or 25)) - 5))
keepalive = 75
max_requests = 10_000
max_requests_jitter = 1_000
control_socket_disable = True
forwarder_headers = (
    ""  # by itself it takes SCRIPT_NAME and PATH_INFO from a header; webapp/http/path_prefix.py knows the path
)
# The app logs requests (webapp/http/request_log.py): an access log would print addresses with their queries.
accesslog = None
# gunicorn's own lines look like ours, go to the same place, and quote no request.
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "tasks.observability.logs.LibraryLine"}},
    "handlers": {"stdout": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stdout"}},
    "root": {"level": "WARNING", "handlers": ["stdout"]},
    "loggers": {"gunicorn.error": {"level": "INFO", "handlers": ["stdout"], "propagate": False}},
}


def post_worker_init(worker: Any) -> None:
    """Let requests that wait for a job end when their process is told to stop."""
    worker.wsgi.extensions["waybill"].long_poll_slots.stopping = lambda: not worker.alive
