"""Libraries' log lines appear without the values that they were given."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from tasks.observability.logs import LibraryLine

WORDS = "marked words of a document"


def line(level: int, message: str, *given: object, error: BaseException | None = None) -> dict[str, object]:
    info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("gunicorn.error", level, "x.py", 1, message, given, info)
    said = LibraryLine().format(record)
    assert "\n" not in said and WORDS not in said
    return json.loads(said)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("message", "given", "event"),
    [
        ("Error handling request %s", (WORDS,), "Error handling request …"),
        ("WORKER TIMEOUT (pid:%s)", (7,), "WORKER TIMEOUT (pid:7)"),
        ("waiting %d s for %r", (2, WORDS), "waiting 2 s for '…'"),
        (f"Invalid request from ip=127.0.0.1: {WORDS}", (), "Invalid request from ip=127.0.0.1"),
        (f"Traceback (most recent call last)\n{WORDS}", (), "Traceback (most recent call last)"),
        ("not a number: %d", (WORDS,), "not a number: %d"),
        ("%(one)s", ({"one": WORDS},), "%(one)s"),
    ],
)
def test_texts_that_were_put_in_are_left_out(message: str, given: tuple[object, ...], event: str) -> None:
    assert line(logging.WARNING, message, *given)["event"] == event


def test_an_exception_is_told_by_its_type_and_places() -> None:
    try:
        raise ValueError(WORDS)
    except ValueError as error:
        told = line(logging.ERROR, "Exception in worker process", error=error)
    assert told["error"] == "ValueError"
    assert told["at"] == [f"test_logs.py:{sys._getframe().f_lineno - 4}"]


def test_what_the_web_server_says_of_itself_is_kept() -> None:
    assert line(logging.INFO, "Listening at: %s (%s)", "http://127.0.0.1:8000", 7)["event"].startswith(
        "Listening at: http"
    )  # type: ignore[attr-defined]
