"""Whether a pooler in transaction mode stands between us and PostgreSQL, found out by what it does.

Such a pooler gives each transaction any free connection to the server. What one transaction set for its session is
then missing in the next one, when its connection was given to somebody else meanwhile.
"""

from __future__ import annotations

import threading
import uuid
from contextlib import ExitStack

from sqlalchemy import Connection, Engine, NullPool, create_engine, text

from tasks.database import engine_options
from tasks.settings import Settings

OTHERS = 2  # who take what the pooler has free; it hands out the connection that was used last first
ANSWER_WITHIN_SECONDS = 2.0


def is_behind_transaction_pooler(settings: Settings) -> bool:
    """Set something for a session, have others open transactions, and look whether it is still there."""
    with ExitStack() as stack:
        engine = _engine(settings)
        stack.callback(engine.dispose)
        ours = stack.enter_context(engine.connect().execution_options(isolation_level="AUTOCOMMIT"))
        mark = uuid.uuid4().hex
        ours.execute(text("SELECT set_config('waybill.probe', :mark, false)"), {"mark": mark})
        others = [stack.enter_context(engine.connect()) for _ in range(OTHERS)]
        found: list[str | None] = []
        asking = threading.Thread(target=lambda: found.append(_mark(ours)), daemon=True)
        for other in others:
            _hold(other)
        asking.start()
        asking.join(ANSWER_WITHIN_SECONDS)
        answered = not asking.is_alive()
        for other in others:
            other.rollback()
        asking.join()
        # No answer while others hold theirs: the pooler had no connection left for us.
        return not answered or found != [mark]


def _engine(settings: Settings) -> Engine:
    options = engine_options(settings, "waybill-preflight")
    for name in ("pool_size", "max_overflow", "pool_timeout", "pool_pre_ping", "pool_recycle"):
        del options[name]
    return create_engine(settings.sqlalchemy_url, poolclass=NullPool, **options)


def _hold(other: Connection) -> None:
    """Begin a transaction, and stay in it. A pooler that has no connection for it lets it wait, so it may not come."""
    waiting = threading.Thread(target=lambda: other.execute(text("SELECT 1")), daemon=True)
    waiting.start()
    waiting.join(ANSWER_WITHIN_SECONDS)


def _mark(ours: Connection) -> str | None:
    found: str | None = ours.execute(text("SELECT current_setting('waybill.probe', true)")).scalar_one()
    return found
