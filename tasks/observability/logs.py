"""Logs each event as a line of JSON, with ids, and never with texts of users or providers.

A command writes its output to stdout, so its log goes to stderr. The web process answers on its port, so its log goes
to stdout, where hosts look first.
"""

from __future__ import annotations

import logging
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO

import structlog

MAX_MESSAGE_LENGTH = 200
MAX_FRAMES = 8


def configure(to: TextIO | None = None) -> None:
    """Set up logging for this process; `to` None means stderr. Messages of libraries are kept from WARNING level up."""
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
    sys.excepthook = _log_the_end
    threading.excepthook = lambda ended: _log_the_end(ended.exc_type, ended.exc_value, ended.exc_traceback)


class LibraryLine(logging.Formatter):
    """Formats a library's log message as a line like ours, without the texts that it quotes.

    From WARNING level up, the arguments of a message may quote a request or a document: only numbers are filled in. Of
    a message without arguments only the part before its first colon is kept. An exception is logged by its type and
    the places that it came through.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        line: dict[str, object] = {
            "event": _without_quotes(record),
            "logger": record.name,
            "level": record.levelname.lower(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line |= log_fields(record.exc_info[1])
        return str(structlog.processors.JSONRenderer()(None, "", line))


def _without_quotes(record: logging.LogRecord) -> str:
    if record.levelno < logging.WARNING:  # below it only the web server logs, about itself
        return record.getMessage()
    template = str(record.msg).split("\n", 1)[0][:MAX_MESSAGE_LENGTH]
    if not record.args:
        return template.split(":", 1)[0]
    arguments = record.args if isinstance(record.args, tuple) else ()
    try:
        return template % tuple(value if isinstance(value, int | float) else "…" for value in arguments)
    except (TypeError, ValueError):
        return template


def log_fields(error: BaseException) -> dict[str, object]:
    """Return the log fields of an exception: its type and the places that it came through."""
    return {"error": type(error).__name__, "at": places(error)}


def places(error: BaseException) -> list[str]:
    """Return the places that an error came through, without its message, which may quote a user or a provider."""
    found, trace = [], error.__traceback__
    while trace is not None:
        found.append(f"{trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return found[-MAX_FRAMES:]


def _log_the_end(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Log that a process or a thread ended by an exception. Python's default hook would print its message."""
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    structlog.get_logger().critical("ended.by_exception", **log_fields(error if error is not None else kind()))
