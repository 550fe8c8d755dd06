"""A worker that dies while it reads a document with this word in it, as if the memory of the container were used up."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

POISON = b"poison"

if __name__ == "__main__":
    from sqlalchemy import false

    from tasks.__main__ import main
    from tasks.intake import IntakePool
    from tasks.ledger.jobs import transitions

    read = IntakePool.read

    def read_or_die(self: IntakePool, data: bytes, *arguments: Any, **more: Any) -> Any:
        if POISON in data:
            os.kill(os.getpid(), signal.SIGKILL)
        return read(self, data, *arguments, **more)

    IntakePool.read = read_or_die  # type: ignore[method-assign]
    if os.environ.get("WITHOUT_ISOLATION"):
        transitions.is_suspect = false  # type: ignore[assignment]
    sys.exit(main(sys.argv[1:]))
