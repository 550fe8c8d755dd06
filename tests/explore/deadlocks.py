"""The deadlocks that are known, each with the reason for which it is left.

PostgreSQL ends a deadlock after a second: one transaction fails, and the others go on. The search tries each of them as
the victim, so a known deadlock breaks no invariant. A worker repeats what failed, a loop does at its next turn, and a
user sees an error page at worst.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class KnownDeadlock:
    """A cycle in which one of `operations` waits at a step in `at`, and another operation at a step in `others_at`."""

    operations: frozenset[str]
    at: frozenset[str]
    others_at: frozenset[str]
    reason: str

    def matches(self, waits: Mapping[int, tuple[str, str]]) -> bool:
        """Return True if this is the deadlock. `waits` has the operation and the step of each actor that waits."""
        return any(
            operation in self.operations and step in self.at and self._another_waits(waits, actor)
            for actor, (operation, step) in waits.items()
        )

    def _another_waits(self, waits: Mapping[int, tuple[str, str]], actor: int) -> bool:
        return any(step in self.others_at for other, (_, step) in waits.items() if other != actor)


KNOWN = (
    KnownDeadlock(
        operations=frozenset({"delete_account"}),
        at=frozenset({"select documents for update"}),
        others_at=frozenset({"insert jobs", "insert submissions"}),
        reason="A request about a stored document locks the document before the account, to which its new job refers. "
        "A deletion locks the account first. Only a person who deletes the account in one window and runs a job again "
        "in another can meet it.",
    ),
    KnownDeadlock(
        operations=frozenset({"save_answer", "late_save_answer"}),
        at=frozenset({"update jobs"}),
        others_at=frozenset({"update provider_calls"}),
        reason="A worker closes its call and saves the answer in one transaction, while another takes the job back "
        "and closes the call, too. The first locks the call before the job. It repeats the transaction, or loses its "
        "claim as it would have anyway.",
    ),
    KnownDeadlock(
        operations=frozenset({"release_behind_lane"}),
        at=frozenset({"select jobs for update", "update jobs", "update provider_calls"}),
        others_at=frozenset({"update provider_calls", "select lanes for update"}),
        reason="Only the holder of a claim closes its call, and it does so before it hands the job back, so these two "
        "never run at the same time.",
    ),
)


def is_known(waits: Mapping[int, tuple[str, str]]) -> bool:
    """Return True if a deadlock is in the list."""
    return any(known.matches(waits) for known in KNOWN)
