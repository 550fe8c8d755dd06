"""What the form on the first page holds: a text, a file, or several files that become a job each."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from flask import request
from werkzeug.datastructures import FileStorage

from tasks.ledger.recording import IdempotencyKeyReused, Recorded
from tasks.workflows import Options, Workflow
from webapp import wording
from webapp.door import HandedIn, NotAccepted, take_file, take_text
from webapp.parts import parts
from webapp.submitting import submit, usable_key
from webapp.titles import title_of_file

MOST_AT_ONCE = 20


@dataclass(frozen=True)
class Outcome:
    """What became of one of several files: its job, or in `refusal` the sentence that says why there is none."""

    name: str
    recorded: Recorded | None
    refusal: str | None


def chosen_files() -> list[FileStorage]:
    """The files of the form. Raises NotAccepted for too many, and for files beside a text."""
    chosen = []
    for file in request.files.getlist("file"):
        empty = not file.stream.read(1)
        file.stream.seek(0)
        if file.filename or not empty:  # a browser sends a nameless empty part when no file was chosen
            chosen.append(file)
    if chosen and request.form.get("text", "").strip():
        raise NotAccepted("both", wording.BOTH_HANDED_IN, field="file")
    if len(chosen) > MOST_AT_ONCE:
        raise NotAccepted("several", wording.too_many_files(MOST_AT_ONCE), field="file")
    return chosen


def handed_in(chosen: Sequence[FileStorage]) -> HandedIn:
    """The one document of the form: its file, else its text. Raises NotAccepted."""
    settings, title = parts().settings, request.form.get("title", "")
    if chosen:
        return take_file(chosen[0].filename or "", chosen[0].stream, title, settings)
    return take_text(request.form.get("text", ""), title, settings)


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
            outcomes.append(Outcome(name, None, refused.sentence))
        except IdempotencyKeyReused:
            outcomes.append(Outcome(name, None, wording.KEY_REUSED))
    return outcomes
