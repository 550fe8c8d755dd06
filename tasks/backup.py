"""Exports the whole database as lines of JSON, and imports it: for a copy, for another host, or for a look inside.

The first line names the schema, and the last line counts the rows, so that a truncated file is recognised. The tables
are read from the database, not from the models of this code, so nothing is left out.
"""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, MetaData, Table, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from tasks.database import Database, let_it_idle
from tasks.ledger.reports import job_views
from tasks.ledger.schema import MIGRATIONS

FORMAT = 1
ROWS_AT_ONCE = 500
NOT_EXPORTED = "alembic_version"


class NotImported(Exception):
    """Raised when nothing was imported. The message says why."""


def exported(database: Database) -> Iterator[str]:
    """Yield every row of every table in one snapshot, a line each, without line ends.

    The lines contain documents and password hashes. Rows are read on demand, and one by one in tables with files.
    """
    snapshot = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with database.engine.connect().execution_options(**snapshot) as connection:
        let_it_idle(connection)
        schema = job_views.schema_version(Session(connection))
        made_at = connection.execute(select(func.now())).scalar_one()
        yield _line({"waybill": FORMAT, "schema": schema, "made_at": made_at.isoformat()})
        counted: Counter[str] = Counter()
        for table in _tables(connection):
            for row in _rows(connection, table):
                counted[table.name] += 1
                yield _line({"table": table.name, "row": {name: _plain(value) for name, value in row.items()}})
        yield _line({"end": dict(counted)})


def restore(database: Database, lines: Iterable[str]) -> dict[str, int]:
    """Fill an empty database with an export, all or nothing. Return the number of rows by table. Raises NotImported."""
    numbered = enumerate(lines, 1)
    head = _parsed(*next(numbered, (1, "")))
    with database.engine.begin() as connection:
        let_it_idle(connection)
        tables = {table.name: table for table in _tables(connection)}
        _refuse_unless_it_fits(connection, head, tables)
        taken: Counter[str] = Counter()
        ended = None
        for table, rows in _batches(numbered, tables):
            if table is None:
                ended = rows[0]
                break
            _insert(connection, table, rows)
            taken[table.name] += len(rows)
        if ended != taken:
            raise NotImported("The export is not complete: its last line is missing, or counts other rows.")
        for table in tables.values():
            _advance_sequences(connection, table)
    return dict(taken)


def _tables(connection: Connection) -> list[Table]:
    """Return the tables, referenced tables first."""
    found = MetaData()
    found.reflect(connection)
    for table in found.sorted_tables:
        for column in table.columns:
            if hasattr(column.type, "none_as_null"):
                column.type.none_as_null = True
    return [table for table in found.sorted_tables if table.name != NOT_EXPORTED]


def _rows(connection: Connection, table: Table) -> Iterator[Mapping[str, Any]]:
    has_files = any(_kind(table, column.name) is bytes for column in table.columns)
    streaming = {"stream_results": True, "yield_per": 1 if has_files else ROWS_AT_ONCE}
    statement = select(table).order_by(*table.primary_key.columns).execution_options(**streaming)
    with connection.execute(statement) as result:
        for row in result.mappings():
            yield dict(row)


def _kind(table: Table, column: str) -> type:
    return table.columns[column].type.python_type


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, uuid.UUID) else value


def _typed(kind: type, value: Any) -> Any:
    if value is None:
        return None
    if kind is bytes:
        return base64.b64decode(value, validate=True)
    if kind is datetime:
        return datetime.fromisoformat(value)
    return uuid.UUID(value) if kind is uuid.UUID else value


def _parsed(number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise NotImported(f"Line {number} is not one of an export.")
    return value


def _refuse_unless_it_fits(connection: Connection, head: Mapping[str, Any], tables: Mapping[str, Table]) -> None:
    if head.get("waybill") != FORMAT:
        raise NotImported("This is not an export, or one of a newer format.")
    here = job_views.schema_version(Session(connection))
    order = {version: position for position, version in enumerate(MIGRATIONS)}
    if here not in order:
        raise NotImported("The database has no tables that this code knows. Run: flask --app wsgi db upgrade")
    if order.get(str(head.get("schema")), len(order)) > order[here]:
        raise NotImported(f"The export has schema {head.get('schema')}, this database {here}. Upgrade it first.")
    full = [name for name, table in tables.items() if connection.execute(select(table).limit(1)).first() is not None]
    if full:
        raise NotImported(f"The database is not empty: there are rows in {', '.join(full)}. Nothing was imported.")


def _batches(
    numbered: Iterable[tuple[int, str]], tables: Mapping[str, Table]
) -> Iterator[tuple[Table | None, list[dict[str, Any]]]]:
    """Yield batches of rows of one table each, and at the end None with the counts of the last line."""
    table, rows, has_files = None, [], False
    for number, line in numbered:
        parsed = _parsed(number, line)
        name = str(parsed.get("table"))
        if table is not None and rows and (name != table.name or len(rows) == ROWS_AT_ONCE or has_files):
            yield table, rows
            rows = []
        if "end" in parsed:
            yield None, [parsed["end"]]
            return
        if name not in tables:
            raise NotImported(f"Line {number} is of a table that this database does not have.")
        table = tables[name]
        try:
            rows.append({column: _typed(_kind(table, column), value) for column, value in parsed["row"].items()})
        except (KeyError, ValueError, AttributeError, TypeError, binascii.Error):
            raise NotImported(f"Line {number} does not fit into the table {name}.") from None
        has_files = any(isinstance(value, bytes) for value in rows[-1].values())


def _insert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    try:
        connection.execute(table.insert(), rows)
    except SQLAlchemyError as error:
        cause = type(error.orig if isinstance(error, DBAPIError) else error).__name__
        raise NotImported(f"Rows of the table {table.name} were refused ({cause}). Nothing was imported.") from None


def _advance_sequences(connection: Connection, table: Table) -> None:
    """Let the sequences of identity columns continue after the highest imported number."""
    for column in table.columns:
        if column.identity is not None:
            highest = connection.execute(select(func.max(column))).scalar_one()
            if highest is not None:
                sequence = func.pg_get_serial_sequence(table.name, column.name)
                connection.execute(select(func.setval(sequence, highest)))
