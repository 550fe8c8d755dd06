"""Reads from a SQL statement which tables it reads, writes and locks, to tell which steps cannot affect each other.

It errs on the safe side: a word that might be a table counts as one, and a lock on one row counts for the table. Then
more orders are tried than would be necessary.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any

from sqlalchemy import MetaData

import webapp.models  # noqa: F401  - it adds the accounts, and the foreign keys to them
from tasks.ledger.models import Base


class Lock(Enum):
    """The modes of locks. The first four are those of rows: see "Explicit Locking" in PostgreSQL's manual."""

    KEY_SHARE = "key share"
    SHARE = "share"
    NO_KEY_UPDATE = "no key update"
    UPDATE = "update"
    INSERT = "insert"  # two rows with the same key: the second waits for the first
    ADVISORY = "advisory"
    ADVISORY_SHARED = "advisory shared"


CONFLICTS = frozenset(
    frozenset(pair)
    for pair in (
        (Lock.KEY_SHARE, Lock.UPDATE),
        (Lock.SHARE, Lock.NO_KEY_UPDATE),
        (Lock.SHARE, Lock.UPDATE),
        (Lock.NO_KEY_UPDATE, Lock.NO_KEY_UPDATE),
        (Lock.NO_KEY_UPDATE, Lock.UPDATE),
        (Lock.UPDATE, Lock.UPDATE),
        (Lock.INSERT, Lock.INSERT),
        (Lock.ADVISORY, Lock.ADVISORY),
        (Lock.ADVISORY, Lock.ADVISORY_SHARED),
    )
)
"""List the pairs of modes of which one waits for the other."""

KEY_SHARE = frozenset({Lock.KEY_SHARE})
Locks = Mapping[str, frozenset[Lock]]


@dataclass(frozen=True)
class Footprint:
    """The tables that a step reads and writes, and the locks that it takes, by table or by the name of the lock.

    `brief` describes the step in a schedule. A `commit` makes the writes of its transaction visible to all others.
    """

    brief: str = ""
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    locks: Locks = field(default_factory=dict)
    commit: bool = False

    def joined(self, other: Footprint) -> Footprint:
        """Return a footprint that covers both, with the description of this one."""
        locks = {name: self.locks.get(name, frozenset()) | other.locks.get(name, frozenset()) for name in
                 {*self.locks, *other.locks}}  # fmt: skip
        return Footprint(
            self.brief, self.reads | other.reads, self.writes | other.writes, locks, self.commit or other.commit
        )


NOTHING = Footprint()


def wait_for_each_other(first: Locks, second: Locks) -> bool:
    """Return True if a lock of the one may have to wait for a lock of the other."""
    return any(
        frozenset((mode, other)) in CONFLICTS
        for name in first.keys() & second.keys()
        for mode in first[name]
        for other in second[name]
    )


def independent(first: Footprint, second: Footprint) -> bool:
    """Return True if the order of these two steps of different actors makes no difference to anybody."""
    if first.commit and second.commit:
        return True
    if wait_for_each_other(first.locks, second.locks):
        return False
    if first.commit and first.writes & (second.reads | second.writes):
        return False
    return not (second.commit and second.writes & (first.reads | first.writes))


class _Tables:
    """The tables of the application, and which of them the server reads or locks besides for a foreign key."""

    def __init__(self, metadata: MetaData) -> None:
        self.names = [table.name for table in metadata.sorted_tables]
        longest_first = "|".join(sorted(self.names, key=len, reverse=True))
        # Neither a column of that name, such as jobs.attempts, nor one that is set, such as attempts=….
        self.pattern = re.compile(rf"(?<![.\w])({longest_first})(?![.\w]|\s*[=+-])")
        self.parents: dict[str, set[str]] = defaultdict(set)
        self.deleted_along: dict[str, set[str]] = defaultdict(set)
        self.checked_at_delete: dict[str, set[str]] = defaultdict(set)
        for table in metadata.sorted_tables:
            for key in table.foreign_keys:
                parent = key.column.table.name
                self.parents[table.name].add(parent)
                cascades = str(key.ondelete or "").upper() in ("CASCADE", "SET NULL")
                (self.deleted_along if cascades else self.checked_at_delete)[parent].add(table.name)


TABLES = _Tables(Base.metadata)
APPENDED = frozenset({"events", "decisions"})
"""Name the tables whose keys the server makes, so that two inserted rows never have the same."""
LOCKING = re.compile(r"FOR (NO KEY UPDATE|KEY SHARE|UPDATE|SHARE)(?: OF (\w+))?( SKIP LOCKED)?")


def read_footprint(statement: str, parameters: Any) -> Footprint:
    """Return the footprint of a statement. The parameters tell advisory locks apart."""
    if "pg_advisory_xact_lock" not in statement:
        return _of_statement(" ".join(statement.split()))
    name = str(next(iter(parameters.values())))
    mode = Lock.ADVISORY_SHARED if "_shared" in statement else Lock.ADVISORY
    return Footprint(f"lock {name.split()[0]}", locks={f"advisory {name}": frozenset({mode})})


@cache
def _of_statement(statement: str) -> Footprint:
    found = TABLES.pattern.findall(statement)
    reads, writes = set(found), set[str]()
    locks: dict[str, set[Lock]] = defaultdict(set)
    locking = LOCKING.search(statement)
    if locking:
        for table in [locking[2]] if locking[2] else found:
            locks[table].add(Lock(locking[1].lower()))
    verb = statement.split(" ", 1)[0].upper()
    target = found[0] if found else ""
    if verb == "UPDATE":
        writes.add(target)
        locks[target].add(Lock.NO_KEY_UPDATE)
    elif verb == "DELETE":
        _delete(target, reads, writes, locks)
    elif verb == "INSERT":
        _insert(target, statement, reads, writes, locks)
    brief = " ".join(filter(None, (verb.lower(), target, locking and locking[0].lower())))
    return Footprint(
        brief, frozenset(reads), frozenset(writes), {name: frozenset(modes) for name, modes in locks.items()}
    )


def with_foreign_keys(step: Footprint, before: Footprint) -> Footprint:
    """Return the step with the locks that the server takes when a transaction updates the same row a second time.

    Then it checks the row's foreign keys again, although they have not changed: it locks the rows that it refers to.
    """
    parents = {parent for table in step.writes & before.writes for parent in TABLES.parents[table]}
    return step.joined(Footprint(reads=frozenset(parents), locks={parent: KEY_SHARE for parent in parents}))


def _delete(target: str, reads: set[str], writes: set[str], locks: dict[str, set[Lock]]) -> None:
    """Add what a DELETE does: the server deletes the rows that refer to the row too, or checks that there are none."""
    left = [target]
    while left:
        table = left.pop()
        if table in writes:
            continue
        writes.add(table)
        locks[table].add(Lock.UPDATE)
        left.extend(TABLES.deleted_along[table])
        for referring in TABLES.checked_at_delete[table]:
            reads.add(referring)
            locks[referring].add(Lock.KEY_SHARE)


def _insert(target: str, statement: str, reads: set[str], writes: set[str], locks: dict[str, set[Lock]]) -> None:
    """Add what an INSERT does: it meets rows with the same key, and the server locks the rows that it refers to."""
    writes.add(target)
    if target not in APPENDED:
        locks[target].add(Lock.INSERT)
    if "DO UPDATE" in statement:
        locks[target].add(Lock.NO_KEY_UPDATE)
    if "SELECT" not in statement:
        reads.clear()  # the words were columns
        if "ON CONFLICT" in statement:
            reads.add(target)
    for parent in TABLES.parents[target]:
        reads.add(parent)
        locks[parent].add(Lock.KEY_SHARE)
