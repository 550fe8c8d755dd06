"""The web's transactions: short, each with one purpose, on the session of the request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from webapp.extensions import db


@contextmanager
def transaction() -> Iterator[Session]:
    """One transaction: committed when the block ends, rolled back when it raises. Either way the connection is free."""
    session = db.session()
    try:
        yield session
        session.commit()
    except BaseException:
        session.rollback()
        raise
