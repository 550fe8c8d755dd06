"""gunicorn's settings of the site, with the deadlines of a test: LIMITS names them, as JSON."""

from __future__ import annotations

import json
import os
import runpy
from pathlib import Path
from typing import Any

site = runpy.run_path(str(Path(__file__).parents[3] / "gunicorn.conf.py"))
globals().update({name: value for name, value in site.items() if not name.startswith("__")})


class QuickWorker(site["BufferingWorker"]):  # type: ignore[misc]
    """The site's worker class, with other limits."""

    limits = json.loads(os.environ.get("LIMITS") or "{}")


worker_class = QuickWorker
max_requests, max_requests_jitter = int(os.environ.get("MAX_REQUESTS") or 0), 0


def post_worker_init(worker: Any) -> None:
    """Call the site's hook, if it is the site that is served."""
    if hasattr(worker.wsgi, "extensions"):
        site["post_worker_init"](worker)
