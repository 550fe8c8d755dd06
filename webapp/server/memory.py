"""Has the C library give large blocks back when they are freed.

By itself glibc keeps, for each thread, the most that was ever freed there: eight threads that have each sent a document
of some megabytes once held 80 MB from then on.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
OWN_BLOCK_FROM_BYTES = 256 * 1024
ARENAS = 2


def give_back_large_blocks() -> None:
    """Set it for this process, where its C library is glibc; others do so by themselves, or cannot be told."""
    with suppress(OSError, AttributeError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(M_MMAP_THRESHOLD, OWN_BLOCK_FROM_BYTES)
        set_option(M_ARENA_MAX, ARENAS)
