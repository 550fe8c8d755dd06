"""Why a document was not read. One list of codes, one exception that carries them."""

from __future__ import annotations

from enum import StrEnum

from tasks.ledger.errors import Category, JobError


class Refusal(StrEnum):
    """What is the matter with a document. The sentence a person reads is chosen elsewhere, from this word."""

    EMPTY = "empty"  # no bytes, or nothing but white space
    NO_TEXT = "no_text"  # well formed, but holds no characters: most likely scanned pages
    LOCKED = "locked"  # cannot be opened without a password
    DAMAGED = "damaged"  # says it is of a kind we read, but cannot be read to its end
    TOO_LARGE_UNPACKED = "too_large_unpacked"
    TOO_MANY_PAGES = "too_many_pages"
    TOO_LONG = "too_long"  # more characters than we send to a model
    TOO_SLOW = "too_slow"  # not read within the time limit
    TOO_MUCH_MEMORY = "too_much_memory"
    LEGACY_WORD = "legacy_word"  # .doc as Word wrote it before 2007
    IMAGE = "image"
    UNSUPPORTED = "unsupported"


class DocumentRefused(JobError):
    """The document itself is the reason: reading the same bytes again would end the same way, so never retried."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(Category.INVALID_DOCUMENT, refusal.value)
        self.refusal = refusal


class ReadAbandoned(Exception):
    """The caller withdrew, or the pool was closed, before the document was read; nothing is known about it."""
