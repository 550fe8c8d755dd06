"""Limits on the time that a client may take, and on the resources of this process that it may use."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from webapp.http.request_body import MAX_REQUEST_BYTES

FILES_A_CONNECTION = 3
"""A socket, and a temporary file each for a long body and a long response."""
FILES_OF_THE_APP = 128


@dataclass(frozen=True)
class Limits:
    """The limits of one web process. None of them is a setting, because nobody has had to change one."""

    head_seconds: float = 10
    """For a request's first line and headers, from their first byte; and for a new connection to send that byte."""
    window_seconds: float = 10
    """The window over which the speed of a body and of a reader is measured."""
    min_bytes_per_second: float = 2_000
    min_bytes_per_second_with_thread: float = 20_000
    """Required of the reader of a streamed response, since it occupies a thread."""
    linger_seconds: float = 2
    """The time a connection is kept for data in flight: after its last response, and when the process ends."""
    max_linger_seconds: float = 10
    max_connections: int = 1_000
    max_head_bytes: int = 32 * 1024
    max_header_fields: int = 100
    max_body_bytes: int = MAX_REQUEST_BYTES
    max_all_bodies_bytes: int = 2 * MAX_REQUEST_BYTES
    """Of all requests together that have no response yet. On disk, except for the first bytes of each."""
    max_unread_bytes: int = 64 * 1024 * 1024
    """Of all responses together that wait for their readers.

    Above it, downloads wait, and the slowest reader is closed.
    """
    buffer_bytes: int = 64 * 1024
    """Bytes of one body or one response that are held in memory; the rest goes to a temporary file."""
    send_buffer_bytes: int = 64 * 1024
    """The kernel's send buffer. By default it takes megabytes, and unread responses look sent."""
    stream_bytes: int = 4 * 1024 * 1024
    """The number of bytes that a streamed response may be generated ahead of its reader."""
    download_bytes: int = 256 * 1024
    """The minimum length of a response that counts as a download."""
    sweep_seconds: float = 0.5


def connections_within_file_limit(requested: int) -> int:
    """Return how many connections this process may hold, raising its limit of open files as far as the host allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = requested * FILES_A_CONNECTION + FILES_OF_THE_APP
    if 0 <= soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        if raised > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    return requested if soft < 0 else max(1, min(requested, (soft - FILES_OF_THE_APP) // FILES_A_CONNECTION))
