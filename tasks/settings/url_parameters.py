"""Checks the parameters after the `?` of a database URL, which hosts write for other clients than ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

POOLED = (
    "Remove it: the app works behind a pooler as it is. Name the direct address in DIRECT_DATABASE_URL, for migrations"
)
OTHERS: Mapping[str, str] = {
    "pgbouncer": POOLED,
    "prepared_statements": POOLED,
    "statement_cache_size": POOLED,
    "prepare_threshold": POOLED,
    "connection_limit": "Remove it, and set DATABASE_POOL_SIZE instead",
    "pool_size": "Remove it, and set DATABASE_POOL_SIZE instead",
    "pool_timeout": "Remove it",
    "socket_timeout": "Remove it",
    "schema": "Remove it, or write options=-csearch_path%3D and the schema's name",
    "currentSchema": "Remove it, or write options=-csearch_path%3D and the schema's name",
    "ssl": "Write sslmode=require",
    "sslaccept": "Write sslmode=verify-full, or sslmode=require to take any certificate",
    "sslidentity": "Write sslcert and sslkey",
}
"""Gives the advice for parameters of other clients, such as those of Prisma and JDBC."""

A_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


def problems(setting: str, address: str) -> list[str]:
    """Return a sentence for each parameter that libpq does not know. No sentence quotes a value of the URL."""
    from psycopg import pq

    parts = urlsplit(address)
    if "@" in parts.query and not parts.path.strip("/"):
        return [f"{setting}: a ? in the user name or password ends them. Write it as %3F."]
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    given = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    return [_sentence(setting, name) for name in dict.fromkeys(given) if name not in known]


def _sentence(setting: str, name: str) -> str:
    shown = f"the parameter {name}" if A_NAME.fullmatch(name) else "one of its parameters"
    return f"{setting}: PostgreSQL's client does not know {shown}. {OTHERS.get(name, 'Remove it from the address')}."
