"""The categories of failure that are stored with jobs, attempts and calls, and the exceptions that end an attempt.

A category says what happened, and from that follows what may be done about it. The sentence that a user reads is chosen
elsewhere, from the category and the code, so that no message of a provider or a library reaches a page, a row or a log.
"""

from __future__ import annotations

from enum import StrEnum


class Category(StrEnum):
    """The reason why an attempt, a provider call or a job did not succeed."""

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
    """Raised when work on a job fails in a way that has been classified.

    `category` decides what happens next. `code` is a short machine word that selects the exact sentence
    (`insufficient_quota`, `locked`); None if the category is enough. Neither holds text of a user or a
    provider.
    """

    def __init__(self, category: Category, code: str | None = None) -> None:
        super().__init__(f"{category}" + (f" ({code})" if code else ""))
        self.category = category
        self.code = code


class AttemptTimedOut(BaseException):
    """Raised when the queue's time limit for one delivery is reached, since every shorter limit inside it has failed.

    It is a BaseException, so that no `except Exception` in a step can swallow it and let the attempt look successful.
    """


class CancelRequested(Exception):
    """Raised when the claim is valid but the owner has cancelled the job: stop, and hand the job back."""


class ClaimLost(BaseException):
    """Raised when the claim is no longer valid, so that nothing may be written under it.

    It is a BaseException, so that no `except Exception` in a step can swallow it and go on writing.
    """
