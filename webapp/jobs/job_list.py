"""The list of what a person has handed in: which part of it is shown, and whether it has changed since."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flask import request, url_for

from tasks.i18n import lazy
from tasks.ledger.reports import job_views
from tasks.ledger.reports.job_views import JobView
from tasks.ledger.states import UNFINISHED, State
from webapp.auth.sessions import current_account
from webapp.database import transaction
from webapp.http import pagination
from webapp.jobs import deadlines
from webapp.text.numbers import number

PAGE = 20
LONGEST_SEARCH = 100
POLL_SECONDS = 4

SHOWN: Mapping[str, tuple[str, frozenset[State] | None]] = {
    "": (lazy("All"), None),
    "working": (lazy("In the works"), UNFINISHED),
    "saved": (lazy("Saved"), frozenset({State.SUCCEEDED})),
    "stopped": (lazy("Stopped or cancelled"), frozenset({State.FAILED, State.CANCELLED})),
}
"""What can be chosen above the list: the word in the address, the word on the page, and the states it means."""


@dataclass(frozen=True)
class MyDocuments:
    """One page of the list. `older` is the cursor of the next, None on the last; `mark` changes when a row does."""

    jobs: Sequence[JobView]
    show: str
    words: str
    before: str
    older: str | None
    mark: str

    @property
    def narrowed(self) -> bool:
        """Whether only a part of the documents was asked for."""
        return bool(self.show or self.words)

    @property
    def poll_seconds(self) -> int | None:
        """How often to ask whether something has changed; None when nothing here will by itself."""
        return None if all(job.finished for job in self.jobs) else POLL_SECONDS

    @property
    def _counts(self) -> Mapping[str, int]:
        states = {word: states for word, (_label, states) in SHOWN.items() if states is not None}
        return {word: sum(job.state in those for job in self.jobs) for word, those in states.items()}

    @property
    def announcement(self) -> str:
        """What a screen reader says of the list when it changes: not each row, but how many stand where."""
        return " ".join(f"{SHOWN[word][0]}: {number(count)}." for word, count in self._counts.items() if count)

    @property
    def said(self) -> str:
        """What there is to be announced, as a word."""
        return "-".join(str(count) for count in self._counts.values())

    def address(self, endpoint: str, **changed: str | None) -> str:
        """The address of this list, or of one that differs from it."""
        wanted = {"show": self.show, "q": self.words, "before": self.before, **changed}
        return url_for(endpoint, _external=False, **{name: value for name, value in wanted.items() if value})


def asked_for() -> MyDocuments:
    """The part of the viewer's list that this request's address names. An unknown word counts as none."""
    show = request.args.get("show", "")
    show = show if show in SHOWN else ""
    words = " ".join(request.args.get("q", "").replace("\0", "").split())[:LONGEST_SEARCH]
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


def _mark(jobs: Sequence[JobView]) -> str:
    rows = ",".join(f"{job.id.hex}:{job.revision}" for job in jobs)
    return hashlib.sha256(rows.encode()).hexdigest()[:16]
