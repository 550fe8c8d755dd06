"""Creates one job for each of several files in a form."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from tasks.ledger.jobs.accept import AcceptedJob, IdempotencyKeyReused
from webapp.http.rejection import NotAccepted
from webapp.jobs import messages
from webapp.jobs.document_input import read_file
from webapp.jobs.parsing import Submission
from webapp.jobs.submission import submit, usable_key
from webapp.jobs.titles import title_of_file
from webapp.services import services

MAX_FILES = 20


@dataclass(frozen=True)
class BatchItem:
    """Represents what became of one file: `recorded` is its job, or `refusal` is the message why there is none."""

    name: str
    recorded: AcceptedJob | None
    refusal: object | None


def submit_each(account_id: uuid.UUID, submission: Submission, key: str | None) -> list[BatchItem]:
    """Submit each file and return what became of it. A file that is refused does not hold up the others."""
    outcomes = []
    for number, file in enumerate(submission.files):
        name = title_of_file(file.filename or "") or f"{number + 1}"
        try:
            document = read_file(file.filename or "", file.stream, "", services().settings)
            file_key = usable_key(f"{key}-{number}") if key else None
            recorded = submit(account_id, document, submission.workflow, submission.options, idempotency_key=file_key)
            outcomes.append(BatchItem(name, recorded, None))
        except NotAccepted as refusal:
            outcomes.append(BatchItem(name, None, refusal.shown_message))
        except IdempotencyKeyReused:
            outcomes.append(BatchItem(name, None, messages.KEY_REUSED))
    return outcomes
