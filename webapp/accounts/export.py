"""Exports everything the site keeps for an account, as a ZIP that is generated while it is sent.

It reads one job at a time, each in its own short transaction, so an export holds neither memory nor a connection. An
account can run one export at a time. `accounts.exporting_until` is the lock; it is extended while the export runs.
"""

from __future__ import annotations

import json
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session

from tasks.i18n import lazy, use_language
from tasks.ledger.keys import reference_of
from tasks.ledger.models import Attempt, JobEvent, ProviderCall
from tasks.ledger.notifications import preferences
from tasks.ledger.reports import job_views
from tasks.ledger.reports.job_views import JobView
from tasks.ledger.sql_intervals import seconds
from webapp.auth import api_tokens
from webapp.database import transaction
from webapp.http.file_names import stem_and_ending
from webapp.http.pagination import Cursor
from webapp.jobs import timeline
from webapp.models import Account, BrowserSession, Identity
from webapp.upload_links import links as upload_links_links

LOCK_SECONDS = 300.0
"""Seconds that a browser may spend on the files of one job before another export may start."""
PAGE = 100
ABOUT = lazy(
    "account.json        your account, its API tokens (names only), notifications, and sign-in services\n"
    "jobs/…/job.json     one job: what you asked for, each attempt, each request to the AI service, and what happened\n"
    "jobs/…/result.md    the result\n"
    "documents/…         each document as you submitted it\n\n"
    "Times are UTC. What the site deleted earlier, and the answers to single parts of long documents, are not "
    "included.\n"
)


class LockLost(Exception):
    """Raised if the export took too long over one job and another export has started, or if the account is gone."""


@dataclass
class Lock:
    """Represents the lock that allows an account its one export. It ends at `until` unless it is extended."""

    account_id: uuid.UUID
    until: datetime


def begin(session: Session, account_id: uuid.UUID) -> Lock | None:
    """Take the lock. Returns None while another export holds it."""
    free = or_(Account.exporting_until.is_(None), Account.exporting_until <= func.now())
    until = _set(session, Account.id == account_id, free, until=func.now() + seconds(LOCK_SECONDS))
    return None if until is None else Lock(account_id, until)


def extend(session: Session, lock: Lock) -> None:
    """Extend the lock. Raises LockLost."""
    until = _set(session, *_is_locked_by(lock), until=func.now() + seconds(LOCK_SECONDS))
    if until is None:
        raise LockLost
    lock.until = until


def end(session: Session, lock: Lock) -> None:
    """Release the lock, unless it was lost."""
    _set(session, *_is_locked_by(lock), until=None)


def _is_locked_by(lock: Lock) -> list[Any]:
    return [Account.id == lock.account_id, Account.exporting_until == lock.until]


def _set(session: Session, *which: Any, until: Any) -> datetime | None:
    set_to: datetime | None = session.execute(
        update(Account)
        .where(*which)
        .values(exporting_until=until)
        .returning(Account.exporting_until)
        .execution_options(synchronize_session=False)
    ).scalar_one_or_none()
    return set_to


class _Unsent:
    """Buffers the bytes that the archive has written and that are not sent yet.

    It is not seekable, so the archive never goes back to change what it wrote.
    """

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._written.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is buffered elsewhere."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def take(self) -> bytes:
        data = b"".join(self._written)
        self._written.clear()
        return data


def archive(account: Account, lock: Lock, *, language_code: str) -> Iterator[bytes]:
    """Yield the bytes of the archive in pieces.

    Raises LockLost; the file is then visibly truncated. `language_code` is the language of the site's own texts: the
    request with its locale has ended by the time the pieces are generated.
    """
    unsent, files = _Unsent(), entries(account, lock)
    with zipfile.ZipFile(unsent, "w", zipfile.ZIP_DEFLATED) as file:
        while (found := _next_of(files, language_code)) is not None:
            name, content = found
            now = datetime.now(UTC)
            file.writestr(zipfile.ZipInfo(name, now.timetuple()[:6]), content, zipfile.ZIP_DEFLATED)
            yield unsent.take()
    yield unsent.take()


def _next_of(files: Iterator[tuple[str, str | bytes]], language_code: str) -> tuple[str, str | bytes] | None:
    with use_language(language_code):
        return next(files, None)


def entries(account: Account, lock: Lock) -> Iterator[tuple[str, str | bytes]]:
    """Yield the name and the content of each file in the archive."""
    yield "README.txt", str(ABOUT)
    yield "account.json", _json(_account(account))
    seen: set[uuid.UUID] = set()
    before: Cursor | None = None
    while True:
        with transaction() as database:
            page = job_views.jobs_of(database, account.id, limit=PAGE, before=before)
        for job in page:
            with transaction() as database:
                extend(database, lock)
            yield from _files_of(job, account.id, seen)
        if len(page) < PAGE:
            return
        before = page[-1].place


def _files_of(job: JobView, account_id: uuid.UUID, seen: set[uuid.UUID]) -> Iterator[tuple[str, str | bytes]]:
    folder = f"jobs/{job.created_at:%Y-%m-%d} {reference_of(job.id)} {job.id.hex[:8]}"
    original = f"documents/{job.document_id.hex[:8]}/{file_name(job.filename or f'document.{job.kind}')}"
    with transaction() as database:
        result = job_views.result_of(database, job.id, account_id)
        facts = _job(job, original if job.original_kept else None)
        facts["attempts"] = [_attempt(attempt) for attempt in job_views.attempts_of(database, job.id)]
        facts["requests"] = [_call(call) for call in job_views.calls_of(database, job.id)]
        facts["events"] = _events(list(job_views.events_of(database, job.id)))
        facts["made_by"] = None if result is None else dict(result.facts)
    yield f"{folder}/job.json", _json(facts)
    if result is not None:
        yield f"{folder}/result.md", result.text
    if job.original_kept and job.document_id not in seen:
        seen.add(job.document_id)
        with transaction() as database:
            document = job_views.original_of(database, job.id, account_id)
            content = None if document is None else document.content
            database.expunge_all()  # otherwise every document stays in memory until the export ends
        if content is not None:
            yield original, content


def file_name(name: str) -> str:
    """Return a document's name as a file name that cannot lead to another folder, on whatever system it is unpacked."""
    safe = "".join("-" if letter in '/\\:*?"<>|' or ord(letter) < 32 else letter for letter in name).strip(" .")
    return "".join(stem_and_ending(safe)) or "document"


def _account(account: Account) -> dict[str, Any]:
    with transaction() as database:
        owned = api_tokens.tokens_of(database, account.id)
        preference = preferences.preference_of(database, account.id)
        linked_identities = database.execute(select(Identity).where(Identity.account_id == account.id)).scalars().all()
        session_query = (
            select(BrowserSession).where(BrowserSession.account_id == account.id).order_by(BrowserSession.created_at)
        )
        signed_in = database.execute(session_query).scalars().all()
        links = upload_links_links.links_of(database, account.id, limit=1000, before=None)
    return {
        "email": account.email,
        "role": account.role,
        "language": account.language,
        "created_at": account.created_at,
        "email_proven_at": account.email_proven_at,
        "api_tokens": [
            {"name": row.name, "created_at": row.created_at, "last_used_at": row.last_used_at} for row in owned
        ],
        "sessions": [{"created_at": row.created_at, "last_seen_at": row.seen_at} for row in signed_in],
        "notices": None
        if preference is None
        else {
            "email": preference.email,
            "email_on": preference.email_on,
            "webhook_url": preference.webhook_url,
            "webhook_gone_url": preference.webhook_gone_url,
            "webhook_gone_at": preference.webhook_gone_at,
        },
        "sign_in_services": [
            {"service": row.issuer, "known_there_as": row.subject, "since": row.created_at} for row in linked_identities
        ],
        "upload_links": [
            {
                "name": link.row.name,
                "state": str(link.state),
                "workflow": link.row.workflow,
                "options": link.row.options,
                "uses": link.row.uses,
                "max_uses": link.row.max_uses,
                "frame_origins": link.row.frame_origins,
                "return_url": link.row.return_url,
                "created_at": link.row.created_at,
                "expires_at": link.row.expires_at,
            }
            for link in links
        ],
    }


def _job(job: JobView, original: str | None) -> dict[str, Any]:
    return {
        "id": str(job.id),
        "reference": reference_of(job.id),
        "title": job.title,
        "workflow": job.workflow,
        "workflow_version": job.workflow_version,
        "options": dict(job.options),
        "state": str(job.state),
        "error": None if job.error_category is None else {"category": job.error_category, "code": job.error_code},
        "document": {
            "filename": job.filename,
            "kind": job.kind,
            "size_bytes": job.size_bytes,
            "read": None if job.read_facts is None else dict(job.read_facts),
            "file": original,
        },
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "content_deleted_at": job.content_deleted_at,
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "outcome": attempt.outcome,
        "error_category": attempt.error_category,
        "error_code": attempt.error_code,
    }


def _call(call: ProviderCall) -> dict[str, Any]:
    """Return the call without the provider's own ids: its support might accept them as proof of who is asking."""
    return {
        "step": call.step,
        "provider": call.provider,
        "model": call.model,
        "started_at": call.started_at,
        "ended_at": call.ended_at,
        "outcome": call.outcome,
        "error_category": call.error_category,
        "input_tokens": call.input_tokens,
        "output_tokens": call.output_tokens,
    }


def _events(events: list[JobEvent]) -> list[dict[str, Any]]:
    """Return the events in the words of the job's page."""
    lines = (timeline.timeline_line(event) for event in timeline.visible_events(events))
    return [{"at": line.at, "what": line.text} for line in lines if line is not None]


def _json(facts: dict[str, Any]) -> str:
    return json.dumps(facts, indent=2, ensure_ascii=False, default=lambda moment: moment.isoformat()) + "\n"
