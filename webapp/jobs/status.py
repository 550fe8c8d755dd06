"""What a job's page shows, made of what its row knows and of nothing else."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from tasks.i18n import _
from tasks.ledger.delivery import fair_order
from tasks.ledger.keys import reference_of
from tasks.ledger.notifications import preferences
from tasks.ledger.reports import job_views
from tasks.ledger.reports.job_views import JobView, LaneWait
from tasks.ledger.reports.poll import PollState, poll_state_of
from tasks.ledger.states import WAITING, State
from tasks.pricing import Usage
from tasks.settings import Settings
from tasks.workflows import WORKFLOWS, AsCsv
from webapp.jobs import messages, timeline
from webapp.jobs.document_facts import BEGINNING, beginning_of, main_measure, what_was_read
from webapp.jobs.messages import BADGES, Failure
from webapp.jobs.results.localized import ShownResult, shown
from webapp.jobs.results.provenance import provenance_of
from webapp.jobs.submission import can_run_again, can_try_again
from webapp.jobs.timeline import TimelineLine
from webapp.jobs.usage import told_usage
from webapp.jobs.workflow_messages import WorkWords, description_of, title_of, words_of
from webapp.services import services
from webapp.text.numbers import number

LONGER_THAN_USUAL_SECONDS = 30
WORKER_SEEN_WITHIN_SECONDS = 60
HANDED_OVER_WITHIN_SECONDS = 2


@dataclass(frozen=True)
class Poll:
    """How often the page asks, and with which words it asks "anything new?".

    `tier` names everything that may change on the page while the row stays as it is; `said` what a screen reader was
    told last, so that it is told only what is new.
    """

    revision: int
    seconds: int
    tier: str
    said: str


@dataclass(frozen=True)
class TimelineStep:
    """One stop of the route: `place` is past, here, stopped or ahead. `fact` is measured, or None.

    `at` is when it was reached, or with `latest` when it will be at the latest; None: nobody knows.
    """

    name: str
    place: str
    fact: str | None = None
    at: datetime | None = None
    latest: bool = False
    waiting: bool = False


@dataclass(frozen=True)
class EmailPreference:
    """Whether a mail tells when it is done. `confirmed`: there is an address that mail may go to."""

    confirmed: bool
    wanted: bool


@dataclass(frozen=True)
class StatusPage:
    """A job as its owner sees it. `poll` is None when nothing will change by itself any more.

    `before` is how many jobs come before it, None where that is not known or does not matter. `mail` is None where the
    site sends none, and when there is nothing left to tell.
    """

    job: JobView
    reference: str
    badge: str
    description: str
    stops: Sequence[TimelineStep]
    log: Sequence[TimelineLine]
    failure: Failure
    overdue_seconds: float | None
    paused: bool
    no_worker: bool
    queue_away: bool
    before: int | None
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
        """What a screen reader says when the state changes."""
        if self.job.state in (State.RUNNING, State.RETRY_WAIT):
            return _(
                "%(badge)s, attempt %(attempt)s of %(most)s",
                badge=self.badge,
                attempt=self.job.attempt,
                most=self.job.max_attempts,
            )
        return self.badge

    @property
    def paused_words(self) -> str:
        """What is said of a job that waits for the operator who paused the work."""
        return str(messages.PAUSED_JOB)

    @property
    def hand_in_again(self) -> str:
        """What can be done once everything was deleted."""
        return str(messages.HAND_IN_AGAIN)

    @property
    def before_words(self) -> str:
        """How many jobs come before it, in words; empty where there is none, or where nobody knows."""
        return messages.jobs_before(self.before)

    @property
    def words(self) -> WorkWords:
        """What the page says of this sort of work."""
        return words_of(self.job.workflow)

    @property
    def read(self) -> str | None:
        """What was measured while it was read, and in how many parts it went on; None if the route says it all."""
        facts, parts = self.job.read_facts or {}, self.result.facts.get("parts") if self.result else None
        said = what_was_read(facts, parts if isinstance(parts, int) else self.job.progress_total)
        return None if said == main_measure(facts) else said

    @property
    def provenance(self) -> list[str]:
        """What made the result, in lines; empty without one."""
        return provenance_of(self.job, self.result.facts) if self.result else []

    @property
    def offers_csv(self) -> bool:
        """Whether the result can be had as a table for a spreadsheet."""
        return isinstance(WORKFLOWS.get(self.job.workflow), AsCsv)

    @property
    def waits_for_operator(self) -> bool:
        """Whether it failed of something that would stop any other document too, until the operator mends it."""
        return self.job.state is State.FAILED and self.job.error_category in messages.ONLY_THE_OPERATOR

    @property
    def seconds_to_attempt(self) -> float | None:
        """How long until the next try; None unless one is waited for."""
        if self.job.next_attempt_at is None:
            return None
        return max(0.0, (self.job.next_attempt_at - self.job.now).total_seconds())


def build_status_page(
    session: Session, job_id: uuid.UUID, account_id: uuid.UUID, settings: Settings, *, with_cost: bool = False
) -> StatusPage | None:
    """The page of this person's job. None for a missing job and for somebody else's alike."""
    pulse = poll_state_of(session, job_id, account_id)
    job = job_views.job_of(session, job_id, account_id)
    if pulse is None or job is None:
        return None
    overdue = pulse.seconds_overdue if is_late(pulse) else None
    no_worker = overdue is not None and no_worker_seen(session)
    lane = job_views.lane_wait_of(session, job_id) if job.state in WAITING else None
    made = title_of(job.workflow)
    log = [
        timeline.timeline_line(event, made) for event in timeline.visible_events(job_views.events_of(session, job_id))
    ]
    return StatusPage(
        job=job,
        reference=reference_of(job.id),
        badge=str(BADGES[job.state]),
        description=description_of(job),
        stops=_stops(job),
        log=[line for line in log if line is not None],
        failure=_failure(job, lane),
        overdue_seconds=overdue,
        paused=pulse.paused,
        no_worker=no_worker,
        queue_away=not no_worker and is_queue_away(session, pulse),
        before=None if no_worker else before_of(session, pulse, job_id),
        lane=lane,
        poll=None if job.finished else _poll(session, pulse, job, settings),
        result=_result(session, job, account_id) if job.state is State.SUCCEEDED else None,
        can_try_again=can_try_again(job),
        can_run_again=can_run_again(job),
        can_cancel=job.state in (State.QUEUED, State.RUNNING, State.RETRY_WAIT),
        beginning=_beginning(session, job, account_id),
        usage=_usage(session, job, account_id, settings) if with_cost else None,
        mail=_mail_wish(session, job, account_id) if settings.can_mail and not job.finished else None,
    )


def _result(session: Session, job: JobView, account_id: uuid.UUID) -> ShownResult | None:
    saved = job_views.result_of(session, job.id, account_id)
    return None if saved is None else shown(job.workflow, saved)


def _mail_wish(session: Session, job: JobView, account_id: uuid.UUID) -> EmailPreference:
    wanted = preferences.email_of_job(session, job.id, account_id)
    return EmailPreference(confirmed=wanted is not None, wanted=bool(wanted))


def _beginning(session: Session, job: JobView, account_id: uuid.UUID) -> str | None:
    if job.read_facts is None:
        return None
    text = job_views.beginning_of(session, job.id, account_id, 4 * BEGINNING)  # it may begin with white space
    return beginning_of(text or "") or None


def _usage(session: Session, job: JobView, account_id: uuid.UUID, settings: Settings) -> Usage | None:
    return told_usage(job_views.spending_of(session, [job.id], account_id)[job.id], settings)


def _failure(job: JobView, lane: LaneWait | None) -> Failure:
    if lane is not None:
        return messages.lane_words(lane.category, lane.code, stopped=lane.stopped, filename=job.filename)
    if job.state is State.FAILED:
        return messages.ending_of(job.error_category, job.error_code, job.filename)
    return messages.failure_of(job.error_category, job.error_code)


def _poll(session: Session, pulse: PollState, job: JobView, settings: Settings) -> Poll:
    # The row was read twice; the earlier revision is named, so that a change in between is polled for.
    return Poll(pulse.revision, interval_of(pulse, settings), tier_of(session, pulse, job.id, settings), said_of(job))


def said_of(job: JobView) -> str:
    """What there is to be announced about a job, as a word."""
    return f"{job.state}-{job.attempt}"


def is_late(pulse: PollState) -> bool:
    """Whether it waits for a worker for longer than usual."""
    return (
        pulse.state in WAITING
        and pulse.seconds_overdue is not None
        and pulse.seconds_overdue > LONGER_THAN_USUAL_SECONDS
    )


def no_worker_seen(session: Session) -> bool:
    """Whether nobody is there who could take it."""
    return (
        job_views.live_workers(
            session, queue=services().settings.queue_name, seen_within_seconds=WORKER_SEEN_WITHIN_SECONDS
        )
        == 0
    )


def before_of(session: Session, pulse: PollState, job_id: uuid.UUID) -> int | None:
    """How many jobs come before one that waits for its turn; None for others, and where an operator holds it back."""
    if pulse.state is not State.QUEUED or pulse.paused:
        return None
    return fair_order.jobs_before(session, services().settings.queue_name, job_id)


def is_queue_away(session: Session, pulse: PollState) -> bool:
    """Whether the queue cannot be reached: it should have been handed a message at once, and was not.

    A job that waits for its turn is not to be handed a message yet.

    The first message of a job is sent by this app; of a later one we know that somebody tries if a worker is there.
    """
    if pulse.state is not State.QUEUED or not pulse.undelivered:
        return False
    if pulse.seconds_overdue is None or pulse.seconds_overdue <= HANDED_OVER_WITHIN_SECONDS:
        return False
    if fair_order.hold_back(session, services().settings.queue_name):
        return False
    return pulse.deliveries == 1 or not no_worker_seen(session)


def interval_of(pulse: PollState, settings: Settings) -> int:
    """Seconds between two polls: often in the first minute, then less; while waiting to retry, towards that moment."""
    if pulse.state is State.RETRY_WAIT:
        return min(15, max(2, math.ceil(pulse.seconds_to_attempt or 0)))
    if pulse.state is State.CANCEL_REQUESTED:
        return 2
    age = settings.job_deadline_seconds - pulse.seconds_to_deadline  # a replay starts the clock again
    return 2 if age < 60 else 5 if age < 600 else 15


def tier_of(session: Session, pulse: PollState, job_id: uuid.UUID, settings: Settings) -> str:
    """Everything but the revision that the page depends on, as a word."""
    words = [str(interval_of(pulse, settings))]
    if pulse.paused:
        return "-".join([*words, "paused"])
    if is_late(pulse):
        words.append(str(int((pulse.seconds_overdue or 0) // 60)))
        if no_worker_seen(session):
            return "-".join([*words, "none"])
    if is_queue_away(session, pulse):
        words.append("away")
    before = before_of(session, pulse, job_id)
    if before:
        words.append(f"before{min(before, messages.MOST_COUNTED + 1)}")
    return "-".join(words)


def _stops(job: JobView) -> list[TimelineStep]:
    words = words_of(job.workflow)
    read, saved = job.read_facts is not None, job.state is State.SUCCEEDED
    started, waiting = job.started_at is not None, job.state in WAITING
    stopped = job.state in (State.FAILED, State.CANCELLED)
    here = 4 if saved else 2 if read else 1 if started or stopped else 0
    places = ["past" if at < here else "ahead" if at > here else "stopped" if stopped else "here" for at in range(4)]
    reading = _("being read") if job.step == "read" and places[1] == "here" and not waiting else None
    done, total = number(job.progress_done), number(job.progress_total)
    measured = _("%(done)s of %(total)s parts done", done=done, total=total) if job.progress_total > 1 else None
    ending = _("stopped") if job.state is State.FAILED else _("cancelled")
    return [
        TimelineStep(_("Accepted"), places[0], at=job.created_at, waiting=waiting),
        TimelineStep(
            _("Read"),
            places[1],
            ending if places[1] == "stopped" else main_measure(job.read_facts) or reading,
            waiting=waiting,
        ),
        TimelineStep(
            words.stop_made if saved else words.stop_making,
            places[2],
            ending if places[2] == "stopped" else measured if here >= 2 else None,
            waiting=waiting,
        ),
        TimelineStep(
            _("Saved"),
            places[3],
            at=job.finished_at if saved else None if stopped else job.deadline_at,
            latest=not job.finished,
        ),
    ]
