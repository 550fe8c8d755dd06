"""Statements that are built and compiled once, for the paths on which most of the time would go into building them."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import BindParameter, Connection, CursorResult, Select, TextClause, bindparam
from sqlalchemy.dialects.postgresql.psycopg import dialect
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeEngine

T = TypeVar("T")
_DIALECT = dialect()  # type: ignore[no-untyped-call]


def parameter(name: str, type_: TypeEngine[T]) -> BindParameter[T]:
    """Return a parameter of a compiled statement, which gets its value when the statement is executed."""
    return bindparam(name, None, type_=type_)


class CompiledStatement:
    """A statement as text for the driver. Its parameters are those that `parameter` made.

    The driver turns values into Python's types by itself; a type of SQLAlchemy's is not applied to a result.
    """

    def __init__(self, statement: Select[*tuple[Any, ...]] | TextClause) -> None:
        compiled = statement.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
        self._text = str(compiled)
        self._constants = {name: value for name, value in compiled.params.items() if value is not None}

    def execute(self, on: Connection | Session, **parameters: Any) -> CursorResult[Any]:
        """Execute the statement with these parameters, on a connection or in the transaction of a session."""
        connection = on.connection() if isinstance(on, Session) else on
        return connection.exec_driver_sql(self._text, {**self._constants, **parameters})
