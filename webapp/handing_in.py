"""Several files in one form become a job each."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from werkzeug.datastructures import FileStorage

from tasks.ledger.recording import IdempotencyKeyReused, Recorded
from tasks.workflows import Options, Workflow
from webapp import wording
from webapp.door import NotAccepted, take_file
from webapp.parts import parts
from webapp.submitting import submit, usable_key
from webapp.titles import title_of_file

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
            outcomes.append(Outcome(name, None, wording.KEY_REUSED))
    return outcomes
