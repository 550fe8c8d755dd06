"""The limits of a reading, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field

from tasks.intake.file_types import MAX_UNPACKED_BYTES, Kind


@dataclass(frozen=True)
class Limits:
    """Sets the limits for reading one document.

    `memory_bytes` is the memory that the child may allocate in addition to what it used before this document.
    `wall_seconds` counts from when a child has the document, without the wait for a free child. `max_unpacked_bytes`
    is the sum over all parts of a zipped document that are read.
    """

    wall_seconds: float = 20.0
    cpu_seconds: int = 15
    memory_bytes: int = 256 * 1024 * 1024
    max_chars: int = 500_000
    max_pages: int = 2_000
    max_unpacked_bytes: int = MAX_UNPACKED_BYTES


@dataclass(frozen=True)
class Reading:
    """Represents a document that was read to its end: clean text, and facts, all of them measured during the reading.

    `facts` always holds `characters` and `words`. By kind: `pages`, `pages_with_text` and, if any, `pages_damaged`
    (PDF); `encoding` and `replaced_bytes` (text kinds); `rows` and `columns` (CSV); `embedded_unread`, if any: charts,
    diagrams and embedded files whose text is missing (Word, OpenDocument).
    """

    text: str
    kind: Kind
    facts: dict[str, int | str] = field(default_factory=dict)
