"""The words for what can go wrong: categories that are stored, and the two exceptions that carry them.

A category says what happened and therefore what may be done about it. The sentence a person reads is chosen elsewhere,
from the category and the code, so that no provider's or library's own message ever reaches a page, a row or a log.
"""

from __future__ import annotations

from enum import StrEnum


class Category(StrEnum):
    """Why an attempt, a provider call or a job did not succeed."""

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    UNCERTAIN = "uncertain"
    AUTH = "auth"
    PERMISSION = "permission"
    INVALID_DOCUMENT = "invalid_document"
    INVALID_REQUEST = "invalid_request"
    CONTENT_POLICY = "content_policy"
    QUOTA = "quota"
    DEADLINE = "deadline"
    CRASHED = "crashed"
    INTERNAL = "internal"


class JobError(Exception):
    """Work on a job went wrong in a way that has been classified.

    `category` decides what happens next. `code` is a short machine word that picks the exact sentence
    (`insufficient_quota`, `locked_with_password`); None means the category says it all. Neither holds text made by a
    user or a provider.
    """

    def __init__(self, category: Category, code: str | None = None) -> None:
        super().__init__(f"{category}" + (f" ({code})" if code else ""))
        self.category = category
        self.code = code


class AttemptTimedOut(BaseException):
    """The queue's own limit for one delivery was reached: every limit inside it has failed.

    A BaseException, so that no `except Exception` in a step can swallow it and let the attempt pass for a success.
    """


class CancelAsked(Exception):
    """The claim stands, but its owner wants no result any more: stop, and hand the job back."""


class ClaimLost(BaseException):
    """The claim no longer stands, so nothing may be written under it.

    A BaseException, so that no `except Exception` in a step can swallow it and go on writing.
    """
