"""A small app for tests of the server itself: it needs no database, and names the process that responded."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from tasks.observability import logs

LARGE = b"x" * 2_000_000

logs.configure(sys.stdout)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Respond by path; for others return the length of the body, and what the server says about the client."""
    path, head = environ["PATH_INFO"], [("Content-Type", "text/plain"), ("X-Process", str(os.getpid()))]
    if path == "/nothing":
        start_response("204 No Content", head)
        return []
    if path == "/unchanged":
        start_response("304 Not Modified", head)
        return []
    if path == "/pieces":
        start_response("200 OK", head)
        return iter([b"one ", b"two ", b"three"])
    if path == "/large":
        start_response("200 OK", [*head, ("Content-Length", str(len(LARGE)))])
        return [LARGE]
    if path == "/stream":
        start_response("200 OK", head)
        return (LARGE[:65536] for _ in range(1000))
    if path == "/slow":
        time.sleep(1)
    if path == "/broken":
        raise RuntimeError("a secret of the app")
    length = len(environ["wsgi.input"].read())
    body = f"{length} {environ['REMOTE_ADDR']} {environ['SERVER_PORT']} {environ['wsgi.url_scheme']}".encode()
    start_response("200 OK", [*head, ("Content-Length", str(len(body)))])
    return [body] if environ["REQUEST_METHOD"] != "HEAD" else []
