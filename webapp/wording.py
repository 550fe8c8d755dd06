"""The words for what happened. No provider's or library's own message is ever shown; these are chosen instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tasks.intake.errors import Refusal
from tasks.ledger.errors import Category
from tasks.ledger.models import JobEvent
from tasks.ledger.states import Event, State
from tasks.retry_policy import TRANSIENT
from tasks.workflows import Choice, Option

BADGES: Mapping[State, str] = {
    State.QUEUED: "Queued",
    State.RUNNING: "Being worked on",
    State.RETRY_WAIT: "Waiting to retry",
    State.SUCCEEDED: "Saved",
    State.FAILED: "Stopped",
    State.CANCEL_REQUESTED: "Cancelling",
    State.CANCELLED: "Cancelled",
}

MOST_COUNTED = 100
"""Beyond so many jobs before one's own, the number says nothing more."""
OWNER_TRIES_AGAIN = "owner: try again"
"""The cause that is stored with a replay by the owner."""

NOTHING_HANDED_IN = "Choose a file or paste some text. Nothing can be made of an empty document."
BOTH_HANDED_IN = (
    "Choose a file or paste text, not both. Your text is still here; to send the file, remove the text first."
)
HANDED_IN_BEFORE = "You handed this in before, with the same options. This is what came of it; nothing was made twice."
SEVERAL_HANDED_IN = "Send one file a request. Each document is worked on by itself."
ORIGINAL_GONE = "The document has been deleted, so nothing more can be made of it. Hand it in again."
NO_SUCH_WORKFLOW = "There is no such workflow."
NO_SUCH_OPTION = "There is no such option here."
OPTION_WRONG = "Choose one of the offered values."
NO_LONGER_OFFERED = "Work of this sort is not done here any more. Hand the document in again, with today's options."
PAUSED = "The operator has paused the work."
PAUSED_JOB = f"{PAUSED} Your document is kept and goes on when work is resumed."
PAUSED_SITE = f"{PAUSED} What you hand in is kept and goes on when work is resumed."
ACCOUNT_DELETED = "Your account and everything in it have been deleted. You are signed out."
PASSWORD_WRONG = "This is not the password of your account. Nothing was deleted."
HAND_IN_AGAIN = "To have it made again, hand the document in again."
DOCUMENT_DELETED = "The document has been deleted, with everything that was made of it."
NOT_CONFIRMED = "Tick the box to confirm. Nothing was deleted."
KEY_REUSED = (
    "This form was already sent, with other content. What came of it is in your list. "
    "To send what is in the form now, press Hand in again."
)
FORM_TOO_OLD = "The form was open for too long, or you signed in again meanwhile. Press Hand in again."
FORM_TOO_OLD_FILE = "Files cannot be kept: choose yours again."
SIGNED_OUT = (
    "You are signed out. Nothing was sent yet, and your text is still here. "
    "Sign in in a new tab, then come back and press Hand in again."
)


@dataclass(frozen=True)
class Failure:
    """What happened, and what that means and what can be done."""

    what: str
    so: str


TRY_LATER = "Your document is kept. Try again in a few minutes."
ASK_OPERATOR = "The operator of this site can put that right and start this again. Quote the reference above."
ONLY_THE_OPERATOR = frozenset({Category.AUTH, Category.PERMISSION, Category.QUOTA})
"""Causes that have nothing to do with the document, and that stay until the operator has done something."""

_BY_CATEGORY: Mapping[Category, Failure] = {
    Category.RATE_LIMITED: Failure("The AI service had too many requests.", TRY_LATER),
    Category.OVERLOADED: Failure("The AI service was busy.", TRY_LATER),
    Category.CONNECTION: Failure("The AI service could not be reached.", TRY_LATER),
    Category.TIMEOUT: Failure("The attempt took longer than it may.", TRY_LATER),
    Category.UNCERTAIN: Failure(
        "The AI service took the request, but no usable answer came back.",
        "It may have billed the call. Trying again makes another call.",
    ),
    Category.AUTH: Failure("The AI service refused the credentials of this site.", ASK_OPERATOR),
    Category.PERMISSION: Failure("The AI service did not let this site do that.", ASK_OPERATOR),
    Category.INVALID_DOCUMENT: Failure("The document could not be read.", "Check the file, or paste its text."),
    Category.INVALID_REQUEST: Failure(
        "The AI service could not work with this document.", "A shorter or simpler version may go through."
    ),
    Category.CONTENT_POLICY: Failure(
        "The AI service declined to work on this document, because of its rules about content.",
        "Trying again would end the same way.",
    ),
    Category.QUOTA: Failure("The budget of this site at the AI service was used up.", ASK_OPERATOR),
    Category.DEADLINE: Failure("The time for this ran out before it was ready.", TRY_LATER),
    Category.CRASHED: Failure("The worker stopped in the middle of the work.", TRY_LATER),
    Category.INTERNAL: Failure(
        "Something went wrong on our side.", "Your document is kept. Try again; if it stays, quote the reference above."
    ),
}

_BY_CODE: Mapping[tuple[Category, str], Failure] = {
    (Category.INVALID_DOCUMENT, Refusal.EMPTY): Failure("The document is empty.", "Choose one with text in it."),
    (Category.INVALID_DOCUMENT, Refusal.NO_TEXT): Failure(
        "No text was found in the document.",
        "Most likely it holds scanned pages. Run text recognition on it first, or paste the text.",
    ),
    (Category.INVALID_DOCUMENT, Refusal.LOCKED): Failure(
        "The document is locked with a password.", "Save a copy without the password, and hand that in."
    ),
    (Category.INVALID_DOCUMENT, Refusal.DAMAGED): Failure(
        "The file is damaged or incomplete.", "Save it again in the program that made it, or paste its text."
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_LARGE_UNPACKED): Failure(
        "The document grows too large when it is unpacked.", "Hand in a smaller part of it, or paste the text."
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_MANY_PAGES): Failure(
        "The document has too many pages.", "Hand in a part of it."
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_LONG): Failure(
        "The document has more text than can be taken in one go.", "Hand in a part of it."
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_SLOW): Failure(
        "Reading the document took too long.", "Save it again in a simpler form, or paste its text."
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_MUCH_MEMORY): Failure(
        "The document grows too large while it is read.", "Save it again in a simpler form, or paste its text."
    ),
    (Category.INVALID_DOCUMENT, Refusal.LEGACY_WORD): Failure(
        "This is a Word document of the old kind (.doc).", "Save it as .docx or PDF, and hand that in."
    ),
    (Category.INVALID_DOCUMENT, Refusal.IMAGE): Failure(
        "This is a picture, and pictures are not read.", "Run text recognition on it first, or paste the text."
    ),
    (Category.INVALID_DOCUMENT, Refusal.UNSUPPORTED): Failure(
        "This kind of file cannot be read.",
        "PDF, Word (.docx), OpenDocument, RTF, HTML, Markdown, CSV and plain text can.",
    ),
    (Category.INVALID_DOCUMENT, "deleted"): Failure(
        "The document was deleted before it was read.", "Hand it in again."
    ),
    (Category.INVALID_REQUEST, "too_long"): Failure(
        "The document is longer than the AI model can take.", "Hand in a part of it."
    ),
    (Category.INVALID_REQUEST, "too_large"): Failure(
        "The document is longer than the AI service can take.", "Hand in a part of it."
    ),
    (Category.INVALID_REQUEST, "output_limit"): Failure(
        "The AI service reached its length limit before it said anything.", "Choose a shorter length."
    ),
    (Category.INVALID_REQUEST, "nothing_to_extract"): Failure(
        "No whole sentence was found that could be extracted.", "Hand in running text."
    ),
    (Category.PERMISSION, "local_not_installed"): Failure(
        "The part that makes extracts was not installed on this server.", ASK_OPERATOR
    ),
    (Category.PERMISSION, "model_not_found"): Failure(
        "The AI service did not know the AI model that was set.", ASK_OPERATOR
    ),
    (Category.PERMISSION, "not_found"): Failure(
        "The AI service did not know the AI model or the address that was set.", ASK_OPERATOR
    ),
    (Category.PERMISSION, "tls"): Failure("The AI service could not be reached safely.", ASK_OPERATOR),
    (Category.AUTH, "base_url"): Failure("The address of the AI service was set wrong.", ASK_OPERATOR),
    (Category.TIMEOUT, "call_budget"): Failure("The AI service did not take the request in time.", TRY_LATER),
    (Category.UNCERTAIN, "call_budget"): Failure(
        "The AI service did not answer in time.", "It may have billed the call. Trying again makes another call."
    ),
    (Category.DEADLINE, "asked_to_wait_too_long"): Failure(
        "The AI service asked to wait longer than the time that was left.", TRY_LATER
    ),
    (Category.DEADLINE, "paused"): Failure(
        "The time for this ran out while the operator of this site had paused the work.", TRY_LATER
    ),
    (Category.CRASHED, "interrupted_too_often"): Failure(
        "The work was interrupted too often.", "If it happens again, the document may be the cause: try a part of it."
    ),
}


def failure_of(category: str | None, code: str | None) -> Failure:
    """The words for a cause. The code picks them where it is known; else the category does."""
    known = Category(category) if category in set(Category) else Category.INTERNAL
    return _BY_CODE.get((known, code or ""), _BY_CATEGORY[known])


def lane_words(category: str, code: str | None, *, stopped: bool, filename: str | None) -> Failure:
    """Why a job waits behind a closed lane, and for what. `filename` None: its text was pasted."""
    cause = failure_of(category, code).what
    if not stopped:
        return Failure(cause, "")
    return Failure(f"The service cannot do its work now. {_blameless(filename)}", cause)


def ending_of(category: str | None, code: str | None, filename: str | None) -> Failure:
    """The words for a job that failed."""
    cause = failure_of(category, code)
    if category not in ONLY_THE_OPERATOR:
        return cause
    return Failure(f"The service could not do this. {_blameless(filename)}", f"{cause.what} {cause.so}")


def _blameless(filename: str | None) -> str:
    return f"Nothing is wrong with your {'text' if filename is None else 'file'}."


def is_passing(category: str | None) -> bool:
    """Whether the same wish may go through later without anybody mending anything, so that the owner may try again."""
    return category in TRANSIENT or category in (Category.UNCERTAIN, Category.DEADLINE)


def counted(number: int, thing: str) -> str:
    """A number of things: 1 job, 2 jobs, 2 days, 2 saved summaries."""
    many = f"{thing.removesuffix('y')}ies" if thing.endswith("y") and thing[-2:-1] not in "aeiou" else f"{thing}s"
    return f"{number:,} {thing if number == 1 else many}"


def jobs_before(count: int | None) -> str:
    """How many jobs come before somebody's; empty for none, and for None: nobody knows."""
    if not count:
        return ""
    number = counted(count, "job") if count <= MOST_COUNTED else f"More than {MOST_COUNTED} jobs"
    return f"{number} before yours."


def needs_ai(title: str) -> str:
    return f"“{title}” needs an AI service, and this server works without one."


def option_wrong(option: Option | None) -> str:
    """What would have been right for an option; None: there is no option of that name."""
    if option is None:
        return NO_SUCH_OPTION
    if isinstance(option, Choice):
        return OPTION_WRONG
    lines = f"at least one line and at most {option.most}" if option.most > 1 else "one line"
    return f"Write {lines}, of at most {option.longest:,} characters each."


def file_too_large(limit: int) -> str:
    return f"The file is larger than {size_in_words(limit)}, which is the most that can be handed in."


def request_too_large(limit: int) -> str:
    most = size_in_words(limit)
    return f"What was sent is larger than {most}, which is the most for one file, and for several sent together."


def too_many_files(most: int) -> str:
    return f"These are more than {most} files. Hand in the others afterwards."


def text_too_long(length: int, limit: int) -> str:
    return f"The text has {length:,} characters; {limit:,} is the most that can be taken in one go."


def size_in_words(size: int) -> str:
    """A number of bytes as people say it: 10 MB, 2.5 MB, 340 kB, 12 bytes."""
    if size >= 1024 * 1024:
        return f"{size / (1024 * 1024):.1f}".removesuffix(".0") + " MB"
    return f"{size // 1024} kB" if size >= 1024 else f"{size} bytes"


def duration_in_words(seconds: float) -> str:
    """A duration as people say it: 12 s, 1 min 12 s, 14 min, 3 h."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"


@dataclass(frozen=True)
class LogLine:
    """One thing that happened. `until` is when the next try is due, None if the line is not about one."""

    at: datetime
    text: str
    until: datetime | None = None


def told(events: Iterable[JobEvent]) -> Iterator[JobEvent]:
    """The events without those of a job that was looked at and went on waiting: the first of them tells it all."""
    waits = False
    for event in events:
        waits_now = event.event == Event.RELEASE and event.facts.get("reason") in _WAITS
        if waits and (waits_now or event.event == Event.CLAIM):
            continue
        waits = waits_now
        yield event


def log_line(event: JobEvent, made: str = "Result") -> LogLine | None:
    """What happened, as the owner reads it; None for what only the machine cares about. `made` is what was saved."""
    text = _log_text(Event(event.event), State(event.state), event.facts, made)
    until = event.facts.get("until") if event.state == State.RETRY_WAIT else None
    return None if text is None else LogLine(event.at, text, datetime.fromisoformat(until) if until else None)


def who_did(event: JobEvent) -> str:
    """Who made it happen, as an operator reads it; empty for the machine."""
    by = event.facts.get("by")
    if isinstance(by, str):
        return by
    own = event.event in (Event.RECORD, Event.CANCEL) or event.facts.get("cause") == OWNER_TRIES_AGAIN
    return "its owner" if own else ""


UNCOUNTED = "That does not count as an attempt."
_RELEASES = {
    "shutdown": "Put back unfinished, because the worker had to stop.",
    "continue": "Put back with its finished parts saved. It goes on with the rest.",
    "lane": "Put back, because the AI service takes no requests right now.",
    "no_place": "Put back, because the AI service has as many of our requests as we allow.",
}
_WAITS = frozenset({"waits_at_provider", "no_place"})


def _log_text(event: Event, state: State, facts: Mapping[str, Any], made: str) -> str | None:
    if event is Event.CANCEL:
        at_once = state is State.CANCELLED
        return "Cancelled by you." if at_once else "You asked to cancel. The worker was told to stop."
    if state is State.CANCELLED:
        return "The work has stopped. Nothing of it was saved."
    cause = failure_of(facts.get("category"), facts.get("code")).what
    words = {
        Event.RECORD: "Accepted and waiting for a free worker.",
        Event.CLAIM: f"Attempt {facts.get('attempt', 1)} of {facts.get('of', '?')} started.",
        Event.SUCCEED: f"{made} saved, marked as incomplete: the answer was cut off by the AI service's length limit."
        if facts.get("cut_off")
        else f"{made} saved.",
        Event.RETRY_LATER: cause,
        Event.FAIL: f"Stopped. {cause}",
        Event.RELEASE: "Handed to the AI service, which is working on it."
        if facts.get("reason") == "waits_at_provider"
        else f"{_RELEASES.get(facts.get('reason', ''), 'Put back unfinished.')} {UNCOUNTED}",
        Event.EXPIRE: f"The worker went silent. Another one takes over. {UNCOUNTED}",
        Event.REPLAY: "You asked to try again."
        if facts.get("cause") == OWNER_TRIES_AGAIN
        else "The operator started it again.",
        Event.INSPECT: "The operator of this site opened your document.",
    }
    return words.get(event)
