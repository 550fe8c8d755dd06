"""Finds ports on loopback: a free one, and the one that the user requested."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from webapp.local.errors import CannotStart

LOWEST, HIGHEST, DEFAULT = 1, 65535, 8000
LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Return a port on loopback that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def requested_port(written: str | None) -> int:
    """Return the port that PORT names, 8000 if it names none. Raises CannotStart if nobody can listen there."""
    text = (written or "").strip() or str(DEFAULT)
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and LOWEST <= int(text) <= HIGHEST):
        raise CannotStart(f"PORT is {text[:40]!r}, but a port is a number from {LOWEST} to {HIGHEST}.")
    port = int(text)
    problem = _why_not(port)
    if problem in (errno.EACCES, errno.EPERM):
        raise CannotStart(f"Port {port} needs more rights than you have. Choose another: PORT={DEFAULT} make demo")
    if problem is not None:
        raise CannotStart(f"Port {port} is in use. Choose another: PORT={_next_free(port)} make demo")
    return port


def _next_free(port: int) -> int:
    after: Iterable[int] = range(port + 1, min(port + 100, HIGHEST + 1))
    return next((other for other in after if _why_not(other) is None), None) or free_port()


def _why_not(port: int) -> int | None:
    """Return the error number that listening on this port gives, None if it works."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return error.errno
    return None
