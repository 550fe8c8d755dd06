"""The guards of the ledger, each with a way to take it away, and the pair of operations that then breaks an invariant.

They are the explorer's own controls: an explorer that finds nothing without a guard would find no fault either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any

import pytest
from sqlalchemy import Select, text, true

from tasks.ledger.accounts import limits
from tasks.ledger.calls import calls, lanes
from tasks.ledger.delivery import gate, outbox
from tasks.ledger.jobs import deletion, guarded_update, retention, transitions
from tasks.ledger.states import TRANSITIONS, Event, State

Removal = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Guard:
    """A guard, and the pair that needs it."""

    name: str
    remove: Removal
    state: str
    operations: tuple[str, str]


class UnlockedSelect(Select[Any]):
    """A SELECT that never locks."""

    inherit_cache = True

    def with_for_update(self, *_: Any, **__: Any) -> UnlockedSelect:
        """Return the SELECT as it is."""
        return self


def lock_nothing(module: ModuleType) -> Removal:
    """Let the SELECTs of a module lock no rows."""
    return lambda monkeypatch: monkeypatch.setattr(module, "select", UnlockedSelect)


def replace(module: ModuleType, name: str, by: object) -> Removal:
    """Replace a name of a module."""
    return lambda monkeypatch: monkeypatch.setattr(module, name, by)


def _do_nothing(*_: object, **__: object) -> None:
    return None


def _compare_no_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    change_state = guarded_update.change_state

    def without_claim(*arguments: Any, claim: object = None, **more: Any) -> object:
        return change_state(*arguments, **more)

    monkeypatch.setattr(transitions, "change_state", without_claim)


def _let_success_win(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {**TRANSITIONS, Event.SUCCEED: {state: State.SUCCEEDED for state in TRANSITIONS[Event.SUCCEED]}}
    monkeypatch.setattr(guarded_update, "TRANSITIONS", MappingProxyType(table))


NO_LOCK = text("SELECT :name")

GUARDS = (
    Guard("a write compares the generation", _compare_no_generation, "taken_over", ("late_succeed", "succeed")),
    Guard(
        "a claim moves held states only",
        replace(guarded_update, "HELD", frozenset(State)),
        "retry_due",
        ("late_fail", "cancel"),
    ),
    Guard("a cancel wins over a success", _let_success_win, "running", ("succeed", "cancel")),
    Guard(
        "expire asks again whether the claim is lost",
        replace(transitions, "is_lost", lambda renewal: true()),
        "running_expired",
        ("expire", "renew"),
    ),
    Guard("a claim consumes the delivery", replace(outbox, "consume", _do_nothing), "queued", ("claim", "cancel")),
    Guard("owe_waiting locks the job", lock_nothing(outbox), "owed_nothing", ("owe_waiting", "cancel")),
    Guard("open_call locks the job", lock_nothing(calls), "running_expired", ("expire", "open_call")),
    Guard(
        "the end of an attempt closes its calls",
        replace(transitions, "close_open_calls", _do_nothing),
        "running_expired",
        ("expire", "open_call"),
    ),
    Guard(
        "calls are counted one transaction at a time",
        replace(lanes, "text", lambda _: NO_LOCK),
        "running",
        ("open_call", "open_call"),
    ),
    Guard(
        "a claim that waits for a lane locks it",
        replace(lanes, "check_and_lock", lanes.check),
        "lane_stopped",
        ("claim", "open_lane"),
    ),
    Guard(
        "an account's jobs are counted one request at a time",
        replace(limits, "_lock_account", _do_nothing),
        "queued",
        ("accept_third", "accept_fourth"),
    ),
    Guard(
        "held jobs are counted one claim at a time",
        replace(gate, "_lock_count", _do_nothing),
        "one_at_once",
        ("claim", "claim_other"),
    ),
    Guard(
        "a claim passes the gate under a lock", replace(gate, "_lock", _do_nothing), "queued_sent", ("claim", "drain")
    ),
    Guard(
        "retention locks the document",
        lock_nothing(retention),
        "succeeded_long_ago",
        ("delete_content", "accept_again"),
    ),
    Guard(
        "a deletion keeps the ids of responses",
        replace(deletion.responses, "note_left_responses", _do_nothing),
        "requesting_in_background",
        ("note_response", "delete_document"),
    ),
)
