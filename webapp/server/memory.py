"""Makes the C library return large blocks to the system when they are freed.

By default glibc keeps, for each thread, the largest amount that was ever freed there: eight threads that had each sent
a document of some megabytes held 80 MB from then on.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
OWN_BLOCK_FROM_BYTES = 256 * 1024
ARENAS = 2


def give_back_large_blocks() -> None:
    """Set the thresholds for this process if its C library is glibc.

    Others return blocks by themselves, or cannot be configured.
    """
    with suppress(OSError, AttributeError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(M_MMAP_THRESHOLD, OWN_BLOCK_FROM_BYTES)
        set_option(M_ARENA_MAX, ARENAS)
