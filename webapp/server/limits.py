"""How long a client may take, and how much of this process it may keep."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from webapp.http.request_body import MOST_TO_READ

FILES_A_CONNECTION = 3
"""A socket, and a temporary file each for a long body and a long answer."""
FILES_OF_THE_APP = 128


@dataclass(frozen=True)
class Limits:
    """The bounds of one web process. Nobody has had to change one, so none of them is a setting."""

    head_seconds: float = 10
    """For a request's first line and headers, from their first byte on; and for a new connection to begin with them."""
    window_seconds: float = 10
    """Over so long it is counted how fast a body arrives and an answer is taken."""
    min_bytes_per_second: float = 2_000
    min_bytes_per_second_with_thread: float = 20_000
    """Asked of the reader of an answer that is made while it is read, since it keeps a thread."""
    linger_seconds: float = 2
    """How long a connection is kept for what may be under way: after its last answer, and when the process ends."""
    max_linger_seconds: float = 10
    max_connections: int = 1_000
    max_head_bytes: int = 32 * 1024
    max_header_fields: int = 100
    max_body_bytes: int = MOST_TO_READ
    max_all_bodies_bytes: int = 2 * MOST_TO_READ
    """Of all requests together that have not been answered yet. On disk, but for the first bytes of each."""
    max_unread_bytes: int = 64 * 1024 * 1024
    """Of all answers together that wait for their readers. Downloads wait beyond it, and the slowest reader goes."""
    buffer_bytes: int = 64 * 1024
    """What is held in memory of one body or one answer; what is longer goes to a temporary file."""
    send_buffer_bytes: int = 64 * 1024
    """What the kernel takes of an answer at once. Otherwise it takes megabytes, and unread answers look sent."""
    stream_bytes: int = 4 * 1024 * 1024
    """An answer that is made while it is read is made so far ahead of its reader."""
    download_bytes: int = 256 * 1024
    """An answer from this length on is a download."""
    sweep_seconds: float = 0.5


def connections_within_file_limit(wanted: int) -> int:
    """How many connections this process may hold, with as many open files as the host allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted * FILES_A_CONNECTION + FILES_OF_THE_APP
    if 0 <= soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        if raised > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    return wanted if soft < 0 else max(1, min(wanted, (soft - FILES_OF_THE_APP) // FILES_A_CONNECTION))
