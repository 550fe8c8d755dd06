"""Lends connections to PostgreSQL to threads, up to a limit, as any pool does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg


class Connections:
    """Opens connections when they are needed, and keeps them."""

    def __init__(self, url: str, limit: int) -> None:
        self._url = url
        self._places = threading.BoundedSemaphore(limit)
        self._free: list[psycopg.Connection[Any]] = []

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection in a transaction, which is committed at the end."""
        with self._places:
            connection = self._free.pop() if self._free else psycopg.connect(self._url, autocommit=True)
            with connection.transaction():
                yield connection
            self._free.append(connection)
