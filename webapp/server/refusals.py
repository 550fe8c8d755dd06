"""Responses of the server itself: short, plain, the last of their connection, and logged as counts."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus

import structlog

log = structlog.get_logger()

RETRY_AFTER_SECONDS = 10


@dataclass(frozen=True)
class Refusal:
    """Represents the reason why a request is not passed to the app. Replaces waitress's errors."""

    code: int
    text: str
    why: str
    retry: bool = False

    @property
    def status(self) -> str:
        """Code and phrase of the status line."""
        return f"{self.code} {HTTPStatus(self.code).phrase}"

    @property
    def body(self) -> bytes:
        """Return the text for people."""
        return f"{self.text}\n".encode()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of this refusal, without those that every response has."""
        more = [("Retry-After", str(RETRY_AFTER_SECONDS))] if self.retry else []
        return [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store"), *more]

    def in_full(self) -> bytes:
        """Return the whole response, for a connection without a complete request."""
        length = ("Content-Length", str(len(self.body)))
        lines = [f"{name}: {value}" for name, value in (*self.headers, length, ("Connection", "close"))]
        return "\r\n".join([f"HTTP/1.1 {self.status}", *lines, "", ""]).encode() + self.body


MALFORMED = Refusal(400, "The request is malformed.", "malformed")
HEAD_TOO_SLOW = Refusal(408, "The request took too long to arrive.", "slow head")
BODY_TOO_SLOW = Refusal(408, "The request's body arrived too slowly.", "slow body")
BODY_TOO_LARGE = Refusal(413, "The request's body is too large.", "large body")
HEAD_TOO_LARGE = Refusal(431, "The request's headers are too large, or too many.", "large head")
FAILED = Refusal(500, "Something went wrong. Try again.", "failed")
NOT_IMPLEMENTED = Refusal(501, "This transfer coding is not supported.", "transfer coding")
NO_ROOM_FOR_BODY = Refusal(503, "Too much is being uploaded at once. Try again.", "no room for bodies", retry=True)
NO_ROOM_FOR_DOWNLOAD = Refusal(503, "Too much is being downloaded at once. Try again.", "downloads waiting", retry=True)
BY_CODE = {one.code: one for one in (MALFORMED, BODY_TOO_LARGE, HEAD_TOO_LARGE, NOT_IMPLEMENTED)}
"""The refusals for errors that waitress itself detects."""


class RefusalLog:
    """Counts refusals, and logs one line per kind now and then: an attack must not fill the log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: Counter[tuple[str, int, str]] = Counter()

    def count(self, refusal: Refusal) -> None:
        """Count a request that the server itself responded to."""
        self._count("request.refused", refusal.code, refusal.why)

    def count_closed(self, why: str) -> None:
        """Count a connection that was closed while it was in use."""
        self._count("connection.closed", 0, why)

    def write(self) -> None:
        """Log the counts since the last time."""
        with self._lock:
            counted, self._counted = self._counted, Counter()
        for (event, status, why), times in counted.items():
            log.info(event, why=why, times=times, **({"status": status} if status else {}))

    def _count(self, *what: str | int) -> None:
        with self._lock:
            self._counted[what] += 1  # type: ignore[index]
