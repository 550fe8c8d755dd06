"""Makes the documents of a measurement: 3 KB each, told apart by a mark that the AI service logs."""

from __future__ import annotations

import uuid

TEXT = (
    "The harbour office writes to all who keep a boat here. The quay is to be mended from March on, and the crane "
    "will stand still for eleven days. Whoever wants to be lifted before that says so by the end of the month. "
) * 14


def marks(count: int) -> list[str]:
    """Return marks that nothing else has."""
    run = uuid.uuid4().hex[:6]
    return [f"{run}_{number}" for number in range(count)]


def document(mark: str) -> str:
    return f"BENCH-{mark}\n{TEXT}"
