"""Which migrations this code knows. They live with the web part, which the ledger does not need; a test compares."""

from __future__ import annotations

MIGRATIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011", "0012")
"""In their order. Migrations expand first and contract later, so code of one migration before runs on the newest."""


def is_behind(version: str | None) -> bool:
    """Whether a database at this version lacks something that this code needs; None: it has no tables.

    A version that is not known here is a newer one: this code was rolled back, or its release is under way.
    """
    return version is None or version in MIGRATIONS[:-1]
