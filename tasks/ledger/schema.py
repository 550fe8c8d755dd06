"""The migrations that this code knows.

The migrations themselves are in the web part, which the ledger must not import; a test compares them with this list.
"""

from __future__ import annotations

MIGRATIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011", "0012", "0013")
"""List the migrations in order. They expand first and contract later: code of the last but one runs on the newest."""


def is_behind(version: str | None) -> bool:
    """Return True if a database at this version lacks something that this code needs. `version` None: it has no tables.

    An unknown version is a newer one: this code was rolled back, or the next release is just being rolled out.
    """
    return version is None or version in MIGRATIONS[:-1]
