"""The list of an account's documents: the part that is shown, and whether it has changed since."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flask import g, request, url_for
from sqlalchemy import Row, Uuid, and_, func, select

from tasks.i18n import lazy
from tasks.ledger.compiled import CompiledStatement, parameter
from tasks.ledger.models import Job
from tasks.ledger.reports import job_views
from tasks.ledger.reports.job_views import JobView
from tasks.ledger.states import UNFINISHED, State
from webapp.auth import sessions
from webapp.auth.sessions import current_account
from webapp.database import reading, transaction
from webapp.http import pagination
from webapp.jobs import deadlines
from webapp.text.numbers import number

PAGE = 20
MAX_SEARCH_LENGTH = 100
POLL_SECONDS = 4

SHOWN: Mapping[str, tuple[str, frozenset[State] | None]] = {
    "": (lazy("All"), None),
    "working": (lazy("In progress"), UNFINISHED),
    "saved": (lazy("Saved"), frozenset({State.SUCCEEDED})),
    "stopped": (lazy("Failed or cancelled"), frozenset({State.FAILED, State.CANCELLED})),
}
"""The filters above the list: the value in the URL, the label on the page, and the states that it selects."""


@dataclass(frozen=True)
class MyDocuments:
    """Represents a page of the list. `older` is the cursor of the next page, None on the last.

    `mark` changes when a row changes.
    """

    jobs: Sequence[JobView]
    show: str
    words: str
    before: str
    older: str | None
    mark: str

    @property
    def narrowed(self) -> bool:
        """Return True if a filter or a search is active."""
        return bool(self.show or self.words)

    @property
    def poll_seconds(self) -> int | None:
        """Return the seconds between two polls; None if nothing in the list will change by itself."""
        return None if all(job.finished for job in self.jobs) else POLL_SECONDS

    @property
    def _counts(self) -> Mapping[str, int]:
        states = {word: states for word, (_label, states) in SHOWN.items() if states is not None}
        return {word: sum(job.state in those for job in self.jobs) for word, those in states.items()}

    @property
    def announcement(self) -> str:
        """Return the text that a screen reader announces when the list changes: not each row, but the counts."""
        return " ".join(f"{SHOWN[word][0]}: {number(count)}." for word, count in self._counts.items() if count)

    @property
    def said(self) -> str:
        """Return a word that changes when the announcement does."""
        return "-".join(str(count) for count in self._counts.values())

    def address(self, endpoint: str, **changed: str | None) -> str:
        """Return the URL of this list, with the given parameters changed."""
        parameters = {"show": self.show, "q": self.words, "before": self.before, **changed}
        return url_for(endpoint, _external=False, **{name: value for name, value in parameters.items() if value})


_MARKED = CompiledStatement(
    sessions.restrict_to_session(
        select(
            Job.id,
            Job.revision,
            and_(Job.finished_at.is_(None), Job.deadline_at <= func.now()).label("is_late"),
        )
        .where(Job.account_id == parameter("account_id", Uuid()))
        .order_by(Job.created_at.desc(), Job.id.desc())
        .limit(PAGE)
    )
)


def is_unchanged(mark: str | None) -> bool:
    """Return True if a page that shows the newest jobs would show them again, read with a single statement.

    Returns False also for the other lists, and where there is no valid session, so that the whole request finds out.
    """
    proof = sessions.parameters_of_session()
    if mark is None or proof is None or any(request.args.get(name) for name in ("show", "q", "before")):
        return False
    with reading() as connection:
        rows = _MARKED.execute(connection, **proof).all()
    if not rows:
        return False
    g.account_id = proof["account_id"]  # the session was valid, so the log may name it
    return _mark(rows) == mark and not any(row.is_late for row in rows)


def asked_for() -> MyDocuments:
    """Return the part of the user's list that the request asks for. Ignores an unknown filter."""
    show = request.args.get("show", "")
    show = show if show in SHOWN else ""
    words = " ".join(request.args.get("q", "").replace("\0", "").split())[:MAX_SEARCH_LENGTH]
    before = request.args.get("before", "")
    found = _found(show, words, before)
    if deadlines.enforce(found):
        found = _found(show, words, before)
    jobs = found[:PAGE]
    older = pagination.after(jobs[-1].place) if len(found) > PAGE else None
    return MyDocuments(jobs, show, words, before, older, _mark(jobs))


def _found(show: str, words: str, before: str) -> list[JobView]:
    with transaction() as session:
        return job_views.jobs_of(
            session,
            current_account().id,
            limit=PAGE + 1,
            before=pagination.read(before),
            states=SHOWN[show][1],
            words=words or None,
        )


def _mark(jobs: Sequence[JobView] | Sequence[Row[Any]]) -> str:
    rows = ",".join(f"{job.id.hex}:{job.revision}" for job in jobs)
    return hashlib.sha256(rows.encode()).hexdigest()[:16]
