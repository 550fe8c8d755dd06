"""The content of a job's status page, made only from what is stored about the job."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from sqlalchemy.orm import Session

from tasks.i18n import _
from tasks.ledger.keys import reference_of
from tasks.ledger.notifications import preferences
from tasks.ledger.reports import job_views
from tasks.ledger.reports.job_views import JobView, LaneWait
from tasks.ledger.reports.poll import PollState, poll_state_of
from tasks.ledger.states import READ_STEP, WAITING, State
from tasks.pricing import Usage
from tasks.settings import Settings
from tasks.workflows import WORKFLOWS, AsCsv
from webapp.jobs import messages, timeline
from webapp.jobs.document_facts import BEGINNING, beginning_of, main_measure, what_was_read
from webapp.jobs.messages import BADGES, Failure
from webapp.jobs.polling import Poll, is_late, is_queue_away, poll_of
from webapp.jobs.results.localized import ShownResult, shown
from webapp.jobs.results.provenance import provenance_of
from webapp.jobs.status_text import StatusText, status_text
from webapp.jobs.submission import can_run_again, can_try_again
from webapp.jobs.timeline import TimelineLine
from webapp.jobs.usage import reported_usage
from webapp.jobs.workflow_messages import WorkWords, description_of, title_of, words_of
from webapp.text.numbers import number

ACCEPTED, READ, MADE, SAVED = range(4)
"""The steps in the order in which a job takes them."""
STOPPED = frozenset({State.FAILED, State.CANCELLED})
CANCELLABLE = frozenset({State.QUEUED, State.RUNNING, State.RETRY_WAIT})


@dataclass(frozen=True)
class TimelineStep:
    """Represents one step of the route. `place` is past, here, stopped or ahead; `fact` is measured, or None.

    `at` is when the step was reached, or with `latest` the latest time by which it will be; None if nobody knows.
    """

    name: str
    place: str
    fact: str | None = None
    at: datetime | None = None
    latest: bool = False
    waiting: bool = False


@dataclass(frozen=True)
class EmailPreference:
    """Represents whether a mail is sent when the job is done. `confirmed` says that there is an address for it."""

    confirmed: bool
    wanted: bool


@dataclass(frozen=True)
class StatusPage:
    """Represents a job as its owner sees it.

    `poll` is None when nothing will change by itself any more. `jobs_ahead` is how many jobs come before this one, None
    where that is not known or does not matter. `mail` is None where the site sends no mail, and when there is nothing
    left to notify about.
    """

    job: JobView
    reference: str
    badge: str
    description: str
    steps: Sequence[TimelineStep]
    log: Sequence[TimelineLine]
    failure: Failure
    overdue_seconds: float | None
    paused: bool
    no_worker: bool
    queue_away: bool
    jobs_ahead: int | None
    lane: LaneWait | None
    poll: Poll | None
    result: ShownResult | None
    can_try_again: bool
    can_run_again: bool
    can_cancel: bool
    beginning: str | None
    usage: Usage | None
    mail: EmailPreference | None

    @property
    def announcement(self) -> str:
        """Return the text that a screen reader announces when the state changes."""
        if self.job.state in (State.RUNNING, State.RETRY_WAIT):
            return _(
                "%(badge)s, attempt %(attempt)s of %(most)s",
                badge=self.badge,
                attempt=self.job.attempt,
                most=self.job.max_attempts,
            )
        return self.badge

    @cached_property
    def text(self) -> StatusText:
        """Return what the page says about the job."""
        return status_text(self)

    @property
    def words(self) -> WorkWords:
        """Return the page's texts for this workflow."""
        return words_of(self.job.workflow)

    @property
    def read(self) -> str | None:
        """Return what was measured when the document was read, and into how many parts it was divided.

        Returns None if the route already shows all of it.
        """
        facts, parts = self.job.read_facts or {}, self.result.facts.get("parts") if self.result else None
        measured = what_was_read(facts, parts if isinstance(parts, int) else self.job.progress_total)
        return None if measured == main_measure(facts) else measured

    @property
    def provenance(self) -> list[str]:
        """Return how the result was made, in lines; empty without a result."""
        return provenance_of(self.job, self.result.facts) if self.result else []

    @property
    def offers_csv(self) -> bool:
        """Return True if the result can be downloaded as a table for a spreadsheet."""
        return isinstance(WORKFLOWS.get(self.job.workflow), AsCsv)

    @property
    def waits_for_operator(self) -> bool:
        """Return True if the cause of the failure would stop any other document too, until the operator fixes it."""
        return self.job.state is State.FAILED and self.job.error_category in messages.ONLY_THE_OPERATOR

    @property
    def seconds_to_attempt(self) -> float | None:
        """Return the seconds until the next try; None if the job does not wait for a try."""
        if self.job.next_attempt_at is None:
            return None
        return max(0.0, (self.job.next_attempt_at - self.job.now).total_seconds())


def build_status_page(
    session: Session, job_id: uuid.UUID, account_id: uuid.UUID, settings: Settings, *, with_cost: bool = False
) -> StatusPage | None:
    """Return the status page of this account's job. Returns None both for a missing job and for another account's."""
    poll_state = poll_state_of(session, job_id, account_id, settings.queue_name)
    job = job_views.job_of(session, job_id, account_id)
    if poll_state is None or job is None:
        return None
    delay = _delay(poll_state)
    lane = _lane_wait(session, job)
    return StatusPage(
        job=job,
        reference=reference_of(job.id),
        badge=str(BADGES[job.state]),
        description=description_of(job),
        steps=_steps(job),
        log=_log(session, job, account_id),
        failure=_failure(job, lane),
        overdue_seconds=delay.overdue_seconds,
        paused=poll_state.paused,
        no_worker=delay.no_worker,
        queue_away=delay.queue_away,
        jobs_ahead=delay.jobs_ahead,
        lane=lane,
        poll=poll_of(poll_state, job, settings),
        result=_result(session, job, account_id),
        can_try_again=can_try_again(job),
        can_run_again=can_run_again(job),
        can_cancel=job.state in CANCELLABLE,
        beginning=_beginning(session, job, account_id),
        usage=_usage(session, job, account_id, settings) if with_cost else None,
        mail=_email_preference(session, job, account_id, settings),
    )


@dataclass(frozen=True)
class _Delay:
    """Represents why a waiting job has not started yet; the fields are those of the page."""

    overdue_seconds: float | None
    no_worker: bool
    queue_away: bool
    jobs_ahead: int | None


def _delay(poll_state: PollState) -> _Delay:
    late = is_late(poll_state)
    overdue_seconds = poll_state.seconds_overdue if late else None
    if late and poll_state.no_worker:  # without a worker, neither the queue nor the other jobs are the cause
        return _Delay(overdue_seconds, no_worker=True, queue_away=False, jobs_ahead=None)
    return _Delay(
        overdue_seconds, no_worker=False, queue_away=is_queue_away(poll_state), jobs_ahead=poll_state.jobs_before
    )


def _lane_wait(session: Session, job: JobView) -> LaneWait | None:
    return job_views.lane_wait_of(session, job.id) if job.state in WAITING else None


def _log(session: Session, job: JobView, account_id: uuid.UUID) -> list[TimelineLine]:
    title = title_of(job.workflow)
    events = timeline.visible_events(job_views.events_of(session, job.id))
    lines = [timeline.timeline_line(event, title) for event in events]
    return [line for line in lines if line is not None]


def _failure(job: JobView, lane: LaneWait | None) -> Failure:
    if lane is not None:
        return messages.lane_words(lane.category, lane.code, stopped=lane.stopped, filename=job.filename)
    if job.state is State.FAILED:
        return messages.ending_of(job.error_category, job.error_code, job.filename)
    return messages.failure_of(job.error_category, job.error_code)


def _result(session: Session, job: JobView, account_id: uuid.UUID) -> ShownResult | None:
    if job.state is not State.SUCCEEDED:
        return None
    saved = job_views.result_of(session, job.id, account_id)
    return None if saved is None else shown(job.workflow, saved)


def _beginning(session: Session, job: JobView, account_id: uuid.UUID) -> str | None:
    if job.read_facts is None:
        return None
    text = job_views.beginning_of(session, job.id, account_id, 4 * BEGINNING)  # it may begin with white space
    return beginning_of(text or "") or None


def _usage(session: Session, job: JobView, account_id: uuid.UUID, settings: Settings) -> Usage | None:
    return reported_usage(job_views.spending_of(session, [job.id], account_id)[job.id], settings)


def _email_preference(
    session: Session, job: JobView, account_id: uuid.UUID, settings: Settings
) -> EmailPreference | None:
    if job.finished or not settings.can_mail:
        return None
    requested = preferences.email_of_job(session, job.id, account_id)
    return EmailPreference(confirmed=requested is not None, wanted=bool(requested))


def _steps(job: JobView) -> list[TimelineStep]:
    current = _current_step(job)
    return [
        _accepted_step(job, _place(ACCEPTED, current, job.state)),
        _read_step(job, _place(READ, current, job.state)),
        _made_step(job, _place(MADE, current, job.state)),
        _saved_step(job, _place(SAVED, current, job.state)),
    ]


def _current_step(job: JobView) -> int:
    """Return the step that the job is at, or stopped at; after the last if the result is saved."""
    if job.state is State.SUCCEEDED:
        return SAVED + 1
    if job.read_facts is not None:
        return MADE
    if job.started_at is not None or job.state in STOPPED:
        return READ
    return ACCEPTED


def _place(step: int, current: int, state: State) -> str:
    if step < current:
        return "past"
    if step > current:
        return "ahead"
    return "stopped" if state in STOPPED else "here"


def _accepted_step(job: JobView, place: str) -> TimelineStep:
    return TimelineStep(_("Accepted"), place, at=job.created_at, waiting=job.state in WAITING)


def _read_step(job: JobView, place: str) -> TimelineStep:
    waiting = job.state in WAITING
    fact = main_measure(job.read_facts)
    if place == "stopped":
        fact = _ending(job)
    elif fact is None and place == "here" and job.step == READ_STEP and not waiting:
        fact = _("being read")
    return TimelineStep(_("Read"), place, fact, waiting=waiting)


def _made_step(job: JobView, place: str) -> TimelineStep:
    words = words_of(job.workflow)
    name = words.stop_made if job.state is State.SUCCEEDED else words.stop_making
    fact = None
    if place == "stopped":
        fact = _ending(job)
    elif place != "ahead" and job.progress_total > 1:
        done, total = number(job.progress_done), number(job.progress_total)
        fact = _("%(done)s of %(total)s parts done", done=done, total=total)
    return TimelineStep(name, place, fact, waiting=job.state in WAITING)


def _saved_step(job: JobView, place: str) -> TimelineStep:
    if job.state is State.SUCCEEDED:
        at = job.finished_at
    elif job.state in STOPPED:
        at = None
    else:
        at = job.deadline_at
    return TimelineStep(_("Saved"), place, at=at, latest=not job.finished)


def _ending(job: JobView) -> str:
    return _("failed") if job.state is State.FAILED else _("cancelled")
