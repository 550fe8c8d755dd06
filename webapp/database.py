"""The transactions of the web app: short, each with one purpose, on the session of the request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from tasks.database import SINGLE_STATEMENT
from webapp.extensions import db


@contextmanager
def transaction() -> Iterator[Session]:
    """Run one transaction: commit at the end of the block, roll back if it raises. Both release the connection."""
    session = db.session()
    try:
        yield session
        session.commit()
    except BaseException:
        session.rollback()
        raise


@contextmanager
def reading() -> Iterator[Connection]:
    """Lend a connection for a single statement that reads, without a transaction around it."""
    with db.engine.connect() as connection:
        yield connection.execution_options(**{SINGLE_STATEMENT: True})
