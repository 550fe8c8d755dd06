"""One line of JSON an event, with ids and never with what people or providers wrote.

A command's answer goes to stdout, so its log goes to stderr. The web process answers on its port, so its log goes to
stdout, where hosts look first.
"""

from __future__ import annotations

import logging
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO

import structlog

LONGEST_MESSAGE = 200
PLACES = 8


def configure(to: TextIO | None = None) -> None:
    """Set up logging for a process of ours; `to` None is stderr. Libraries are heard from warnings on."""
    to = to or sys.stderr
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=to),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(to)
    handler.setFormatter(LibraryLine())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    sys.excepthook = _say_how_it_ended
    threading.excepthook = lambda ended: _say_how_it_ended(ended.exc_type, ended.exc_value, ended.exc_traceback)


class LibraryLine(logging.Formatter):
    """What a library says, as a line like ours and without the words it was given.

    From warnings on, texts put into a message may quote a request or a document: only numbers are put in, and of a
    message that was put together beforehand only what stands before its first colon is kept. An exception is told by
    its type and the places it came through.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        line: dict[str, object] = {
            "event": _without_words(record),
            "logger": record.name,
            "level": record.levelname.lower(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line |= log_fields(record.exc_info[1])
        return str(structlog.processors.JSONRenderer()(None, "", line))


def _without_words(record: logging.LogRecord) -> str:
    if record.levelno < logging.WARNING:  # only the web server is heard below, about itself
        return record.getMessage()
    template = str(record.msg).split("\n", 1)[0][:LONGEST_MESSAGE]
    if not record.args:
        return template.split(":", 1)[0]
    given = record.args if isinstance(record.args, tuple) else ()
    try:
        return template % tuple(one if isinstance(one, int | float) else "…" for one in given)
    except (TypeError, ValueError):
        return template


def log_fields(error: BaseException) -> dict[str, object]:
    """What a log may say of an exception: its type and where it came through."""
    return {"error": type(error).__name__, "at": places(error)}


def places(error: BaseException) -> list[str]:
    """Where an error came through, without its message, which may hold what a person or a provider wrote."""
    found, trace = [], error.__traceback__
    while trace is not None:
        found.append(f"{trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return found[-PLACES:]


def _say_how_it_ended(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """The last line of a process or a thread that ended by an exception. Python's own would quote its message."""
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    structlog.get_logger().critical("ended.by_exception", **log_fields(error if error is not None else kind()))
