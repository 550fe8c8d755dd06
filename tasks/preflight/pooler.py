"""Finds out whether a pooler in transaction mode is between us and PostgreSQL, by its behaviour.

Such a pooler gives each transaction any free connection to the server. A setting of the session is then missing in the
next transaction, if the connection was given to another client meanwhile.
"""

from __future__ import annotations

import threading
import uuid
from contextlib import ExitStack

from sqlalchemy import Connection, Engine, NullPool, create_engine, text

from tasks.database import engine_options
from tasks.settings import Settings

OTHERS = 2  # clients that take the pooler's free connections; it hands out the last used connection first
ANSWER_WITHIN_SECONDS = 2.0


def is_behind_transaction_pooler(settings: Settings) -> bool:
    """Set a value for a session, let other clients open transactions, and return True if the value is lost."""
    with ExitStack() as stack:
        engine = _engine(settings)
        stack.callback(engine.dispose)
        probe = stack.enter_context(engine.connect().execution_options(isolation_level="AUTOCOMMIT"))
        mark = uuid.uuid4().hex
        probe.execute(text("SELECT set_config('waybill.probe', :mark, false)"), {"mark": mark})
        others = [stack.enter_context(engine.connect()) for _ in range(OTHERS)]
        found: list[str | None] = []
        asking = threading.Thread(target=lambda: found.append(_mark(probe)), daemon=True)
        for other in others:
            _hold(other)
        asking.start()
        asking.join(ANSWER_WITHIN_SECONDS)
        answered = not asking.is_alive()
        for other in others:
            other.rollback()
        asking.join()
        # No answer while the others hold theirs means that the pooler had no connection left for the probe.
        return not answered or found != [mark]


def _engine(settings: Settings) -> Engine:
    options = engine_options(settings, "waybill-preflight")
    for name in ("pool_size", "max_overflow", "pool_timeout", "pool_recycle"):
        del options[name]
    return create_engine(settings.sqlalchemy_url, poolclass=NullPool, **options)


def _hold(other: Connection) -> None:
    """Begin a transaction and stay in it. It may not begin, since a pooler without a free connection lets it wait."""
    waiting = threading.Thread(target=lambda: other.execute(text("SELECT 1")), daemon=True)
    waiting.start()
    waiting.join(ANSWER_WITHIN_SECONDS)


def _mark(probe: Connection) -> str | None:
    found: str | None = probe.execute(text("SELECT current_setting('waybill.probe', true)")).scalar_one()
    return found
