"""The text at the top of a status page: a headline, and lines below it, for each state and each reason to wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from tasks.i18n import _, gettext, ngettext, plural
from tasks.ledger.reports.job_views import JobView
from tasks.ledger.states import READ_STEP, SAVE_STEP, State
from webapp.jobs import messages
from webapp.text.markup import clock, countdown, day, fill
from webapp.text.numbers import duration_in_words

if TYPE_CHECKING:
    from webapp.jobs.status import StatusPage


@dataclass(frozen=True)
class StatusText:
    """Holds the headline, and the lines below it; both may hold elements, so a template must not escape them again."""

    headline: str
    lines: Sequence[str] = ()


def status_text(page: StatusPage) -> StatusText:
    """Return what a status page says about its job."""
    text = _text_of_state(page)
    return StatusText(text.headline, [line for line in (*text.lines, *_remarks(page.job)) if line])


def _text_of_state(page: StatusPage) -> StatusText:
    job = page.job
    if page.paused:
        return _paused(page)
    match job.state:
        case State.QUEUED:
            return _queued(page)
        case State.RUNNING:
            return StatusText(_running(page))
        case State.RETRY_WAIT:
            return _waiting_to_retry(page)
        case State.SUCCEEDED:
            assert job.finished_at is not None
            saved = gettext("%(what)s saved at %(time)s, %(day)s.")
            at, on = clock(job.finished_at), day(job.finished_at)
            return StatusText(fill(saved, what=page.words.title, time=at, day=on))
        case State.FAILED:
            return StatusText(page.failure.what, [] if job.content_deleted_at else [page.failure.so])
        case State.CANCEL_REQUESTED:
            return StatusText(
                _("We asked the worker to stop. Work that is already at the AI service may still be billed.")
            )
        case State.CANCELLED:
            return StatusText(_("Cancelled. Nothing more will happen."))


def _paused(page: StatusPage) -> StatusText:
    job = page.job
    retry = ""
    if job.state is State.RETRY_WAIT:
        number, of = job.attempt, job.max_attempts
        next_try = _("The next try is attempt %(attempt)s of %(most)s.", attempt=number, most=of)
        retry = f"{page.failure.what} {next_try}"
    return StatusText(str(messages.PAUSED_JOB), [_joined(retry, _uncounted(), _stops_by(job))])


def _queued(page: StatusPage) -> StatusText:
    job, lane = page.job, page.lane
    if lane and lane.stopped:
        waits = gettext(
            "Your document waits until the operator has fixed this. If it isn’t fixed by %(time)s, the job fails and "
            "we say so here."
        )
        return _behind_stopped_lane(page, waits)
    if lane:
        waits = gettext("Your document waits and continues after %(time)s.")
        headline = _joined(page.failure.what, fill(waits, time=clock(lane.until, seconds=True, today=job.now)))
        return StatusText(headline, [_joined(_uncounted(), _stops_by(job))])
    return StatusText(_why_queued(page), [_while_late(page)])


def _why_queued(page: StatusPage) -> str:
    job, ahead = page.job, messages.jobs_before(page.jobs_ahead)
    if page.no_worker:
        return _("Accepted, but no worker has responded for a while. The work starts when one is back.")
    if page.queue_away:
        return _(
            "Accepted. The queue can’t be reached right now. Your document is safe, and the work starts automatically "
            "when the queue is back."
        )
    if page.overdue_seconds:
        so_far = duration_in_words(page.overdue_seconds)
        return _joined(_("Waiting longer than usual: %(time)s so far.", time=so_far), ahead)
    if job.at_provider:
        return _("The AI service is working on it. We ask again in a moment.")
    if job.started_at:
        return _joined(_("Waiting for a free worker to continue."), ahead)
    return _joined(_("Accepted. Waiting for a free worker."), ahead)


def _while_late(page: StatusPage) -> str:
    if not page.overdue_seconds:
        return ""
    return _joined("" if page.queue_away else _("Your document is safe."), _stops_by(page.job))


def _running(page: StatusPage) -> str:
    job = page.job
    doing = {READ_STEP: _("Reading your document"), SAVE_STEP: _("Saving the result")}.get(
        job.step or "", page.words.making
    )
    attempt, of = job.attempt, job.max_attempts
    if job.claimed_at is None:
        return _("%(doing)s, attempt %(attempt)s of %(most)s.", doing=doing, attempt=attempt, most=of)
    since = gettext("%(doing)s, since %(time)s, attempt %(attempt)s of %(most)s.")
    return fill(since, doing=doing, time=clock(job.claimed_at), attempt=attempt, most=of)


def _waiting_to_retry(page: StatusPage) -> StatusText:
    if page.lane and page.lane.stopped:
        waits = gettext(
            "The next try waits until the operator has fixed this. If it isn’t fixed by %(time)s, the job fails and we "
            "say so here."
        )
        return _behind_stopped_lane(page, waits)
    if page.no_worker:
        next_try = _("The next try is due, but no worker has responded for a while. It starts when one is back.")
    elif page.overdue_seconds:
        next_try = _("The next try is due and waits for a free worker.")
    else:
        next_try = _next_try(page)
    return StatusText(_joined(page.failure.what, next_try))


def _next_try(page: StatusPage) -> str:
    job, seconds = page.job, page.seconds_to_attempt
    if job.next_attempt_at is None or seconds is None:
        return ""
    facts = {
        "time": clock(job.next_attempt_at, seconds=seconds < 60, today=job.now),
        "attempt": job.attempt,
        "most": job.max_attempts,
    }
    if seconds < 1:
        return fill(gettext("Next try at %(time)s, attempt %(attempt)s of %(most)s."), **facts)
    in_time = gettext("Next try at %(time)s %(left)s, attempt %(attempt)s of %(most)s.")
    return fill(in_time, left=countdown(seconds), **facts)


def _behind_stopped_lane(page: StatusPage, waits: str) -> StatusText:
    until = fill(waits, time=clock(page.job.deadline_at, today=page.job.now))
    return StatusText(page.failure.what, [_joined(page.failure.so, until, _uncounted())])


def _remarks(job: JobView) -> Sequence[str]:
    """Return what is said in every state: that the content was deleted, and that calls may have been billed."""
    remarks: list[str] = []
    if job.content_deleted_at:
        remarks.append(_joined(_deleted(job), _("This record stays."), str(messages.HAND_IN_AGAIN)))
    if job.unknown_calls:
        remarks.append(
            ngettext(
                "One call to the AI service ended without an answer. The service may have billed it.",
                "%(num)s calls to the AI service ended without an answer. The service may have billed them.",
                job.unknown_calls,
            )
        )
    return remarks


def _deleted(job: JobView) -> Markup:
    assert job.content_deleted_at is not None
    days = job.days_kept
    if job.state is not State.SUCCEEDED:
        text = plural(
            "The document was deleted on %(day)s, after %(num)s day.",
            "The document was deleted on %(day)s, after %(num)s days.",
            days,
        )
    elif job.original_kept:
        text = plural(
            "The result was deleted on %(day)s, after %(num)s day.",
            "The result was deleted on %(day)s, after %(num)s days.",
            days,
        )
    else:
        text = plural(
            "The result and the document were deleted on %(day)s, after %(num)s day.",
            "The result and the document were deleted on %(day)s, after %(num)s days.",
            days,
        )
    return fill(text, day=day(job.content_deleted_at), num=days)


def _uncounted() -> str:
    return _("Waiting doesn’t count as an attempt.")


def _stops_by(job: JobView) -> Markup:
    return fill(
        gettext("If it isn’t done by %(time)s, we stop and say so here."), time=clock(job.deadline_at, today=job.now)
    )


def _joined(*sentences: str) -> Markup:
    return Markup(" ").join(sentence for sentence in sentences if sentence)
