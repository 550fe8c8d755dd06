"""Several files in one form become a job each."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from werkzeug.datastructures import FileStorage

from tasks.ledger.jobs.accept import IdempotencyKeyReused, Recorded
from tasks.workflows import Options, Workflow
from webapp.http.rejection import NotAccepted
from webapp.jobs import messages
from webapp.jobs.document_input import take_file
from webapp.jobs.submission import submit, usable_key
from webapp.jobs.titles import title_of_file
from webapp.services import parts

MOST_AT_ONCE = 20


@dataclass(frozen=True)
class Outcome:
    """What became of one of several files: its job, or in `refusal` what a page says of why there is none."""

    name: str
    recorded: Recorded | None
    refusal: object | None


def hand_in_each(
    account_id: uuid.UUID, chosen: Sequence[FileStorage], workflow: Workflow, options: Options, key: str | None
) -> list[Outcome]:
    """A job for each file that can be taken. One that cannot does not hold up the others."""
    outcomes = []
    for number, file in enumerate(chosen):
        name = title_of_file(file.filename or "") or f"{number + 1}"
        try:
            document = take_file(file.filename or "", file.stream, "", parts().settings)
            of_this_file = usable_key(f"{key}-{number}") if key else None
            recorded = submit(account_id, document, workflow, options, idempotency_key=of_this_file)
            outcomes.append(Outcome(name, recorded, None))
        except NotAccepted as refused:
            outcomes.append(Outcome(name, None, refused.told))
        except IdempotencyKeyReused:
            outcomes.append(Outcome(name, None, messages.KEY_REUSED))
    return outcomes
