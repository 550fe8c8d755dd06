"""The reasons why a document was not read: one list of codes, and one exception that carries them."""

from __future__ import annotations

from enum import StrEnum

from tasks.ledger.errors import Category, JobError


class Refusal(StrEnum):
    """Names the reason why a document was refused. The web app chooses the sentence for the user by this code."""

    EMPTY = "empty"  # no bytes, or only white space
    NO_TEXT = "no_text"  # well formed, but holds no characters: most likely scanned pages
    LOCKED = "locked"  # cannot be opened without a password
    DAMAGED = "damaged"  # claims a kind that we read, but cannot be read to its end
    TOO_LARGE_UNPACKED = "too_large_unpacked"
    TOO_MANY_PAGES = "too_many_pages"
    TOO_LONG = "too_long"  # more characters than we send to a model
    TOO_SLOW = "too_slow"  # not read within the time limit
    TOO_MUCH_MEMORY = "too_much_memory"
    LEGACY_WORD = "legacy_word"  # .doc as Word wrote it before 2007
    IMAGE = "image"
    UNSUPPORTED = "unsupported"


class DocumentRefused(JobError):
    """Raised when the document itself is the reason. Never retried: the same bytes would be refused again."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(Category.INVALID_DOCUMENT, refusal.value)
        self.refusal = refusal


class ReadCancelled(Exception):
    """Raised when the caller cancelled or the pool was closed before the document was read. Says nothing about it."""
